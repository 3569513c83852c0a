"""The same decisions with arrays: a view of the world's nodes as numpy columns, so that one operation asks all nodes at once.

Rules live in `scheduling`; what is here repeats the arithmetic of four plugins over columns (resources fit, balanced
allocation, topology spread, inter-pod affinity) and remembers the answers of the others, which depend on the pod's shape and
the node only. Pods of one shape share that work, and after a placement only the nodes that changed are asked again. Tests hold
both ways to the same answers.
"""

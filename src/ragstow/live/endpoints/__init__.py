"""Whether the service answers: every replica over a forwarded port, its Services, and the whole way of a question.

Asks and judges; which pods and rights there are is the caller's. Nothing that it makes in a store outlives it.
"""

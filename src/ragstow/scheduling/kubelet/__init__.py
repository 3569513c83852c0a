"""The kubelet after the scheduler: which devices, CPUs and memory a bound pod gets, or the text with which it is rejected.

Rules and names are those of the kubelet of Kubernetes 1.37 (pkg/kubelet: cm/devicemanager, cm/topologymanager,
cm/cpumanager, cm/memorymanager, lifecycle). `node.Kubelet` is one node over time; `scenario.play` plays a recorded or
written sequence of events. Pure: no clock, no chance; where the original follows map order, a `Picker` decides and the
answer says what else was possible. It must not know how pods got to the node.
"""

"""Workloads and the user's own code under torch.profiler."""

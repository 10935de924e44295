"""Records workloads and the user's own code with torch.profiler."""

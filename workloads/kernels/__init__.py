"""Triton kernels. Importing a module here needs triton."""

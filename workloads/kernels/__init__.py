"""Triton kernels (importing these modules needs triton), and a C++ and CUDA extension's sources."""

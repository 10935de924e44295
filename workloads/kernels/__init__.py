"""Triton kernels, whose modules need triton, and the sources of a C++ and CUDA extension."""

/* The library exports only the functions that Python calls: setup.py compiles with hidden visibility. */

#ifndef TRACEKIT_EXPORT_H
#define TRACEKIT_EXPORT_H

#ifdef _WIN32
#define TRACEKIT_EXPORT __declspec(dllexport)
#else
#define TRACEKIT_EXPORT __attribute__((visibility("default")))
#endif

#endif

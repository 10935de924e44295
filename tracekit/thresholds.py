"""Every number that judges, once, with where it comes from. Shares are of the window."""

# Exposed communication or copies that make up this share of a compute-bound window name the
# bottleneck: they can be hidden behind compute, which kernels cannot. (Ours.)
EXPOSED_SHARE = 0.10

# Idle time that no one can be charged with (no launch in the trace, or a wait after the launch
# had returned) makes the regime unknown when it is this share and could turn it. (Ours.)
UNEXPLAINED_SHARE = 0.20

# A launch takes this long to reach an idle device on today's machines: SKIP measures 4 to 8 us
# (https://arxiv.org/abs/2504.11750).
LAUNCH_FLOOR_NS = 8_000

# Kernels shorter than a launch's floor cannot keep a device busy however fast they are.
SHORT_KERNEL_NS = 8_000

# Margins under which a regime is a close call, and over which it is plain. (Ours.)
CLOSE_MARGIN = 0.10
PLAIN_MARGIN = 0.30

# Fewer GPU ops or operators than this are an anecdote, not a run. (Ours.)
FEW_OPS = 10

# Operators that cover less of a CPU-only window than this leave it unexplained. (Ours.)
OPERATOR_SHARE = 0.01

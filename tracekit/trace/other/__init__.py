"""Files of other profilers -> the text of Kineto traces, one for each process."""

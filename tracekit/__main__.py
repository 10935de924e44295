"""python -m tracekit"""

from tracekit.commands import main

main()

"""Runs the package's tests: `WARPYARD_BIN=warpyard python python/tests/run.py [client|functions|torch]`.

Prints a line for each test, `ok    name` or `WRONG name`, which the test command counts.
"""

import sys
import unittest
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]


class Lines(unittest.TestResult):
    def addSuccess(self, test):
        print(f"ok    {test.id()}", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {reason}", flush=True)

    def addError(self, test, error):
        super().addError(test, error)
        print(f"WRONG {test.id()}\n{self.errors[-1][1]}", flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        print(f"WRONG {test.id()}\n{self.failures[-1][1]}", flush=True)


names = [f"test_{name}" for name in sys.argv[1:]] or ["test_client", "test_functions", "test_torch"]
result = unittest.defaultTestLoader.loadTestsFromNames(names).run(Lines())
sys.exit(not (result.wasSuccessful() and result.testsRun))

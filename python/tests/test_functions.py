"""Functions as tasks: results, exceptions, arrays, and functions of the script that was started."""

import asyncio
import os
import pickle
import subprocess
import sys
import textwrap

import warpyard
import warpyard.aio
from support import BINARY, PACKAGE, ServerTest


@warpyard.task(cpus=0.5)
def add(a, b=1):
    return a + b


@warpyard.task
def fail(message):
    raise KeyError(message)


@warpyard.task
def exit_at_once():
    os._exit(3)


class Functions(ServerTest):
    def options(self, function):
        return function.options(client=self.client, workdir=self.work)

    def test_called_directly_it_is_the_function(self):
        self.assertEqual((add(1, b=2), add.__name__), (3, "add"))

    def test_results_come_back_under_any_umask(self):
        before = os.umask(0)
        try:
            self.assertEqual(self.options(add).submit(20, b=22).result(60), 42)
        finally:
            os.umask(before)

    def test_a_result_comes_back(self):
        call = self.options(add).submit(20, b=22)
        self.assertEqual(call.result(60), 42)
        self.assertEqual(call.job.name, "add")
        self.assertFalse(call.directory.exists(), "what was exchanged is removed")

    def test_an_exception_comes_back_with_its_traceback(self):
        with self.assertRaises(warpyard.RemoteError) as raised:
            self.options(fail).submit("gone").result(60)
        self.assertIn("KeyError: 'gone'", str(raised.exception))
        self.assertIn("in fail", raised.exception.traceback)

    def test_a_task_that_dies_without_a_word_is_a_failed_job(self):
        with self.assertRaises(warpyard.JobFailed) as failed:
            self.options(exit_at_once).submit().result(60)
        self.assertIn("exit code 3", str(failed.exception))

    def test_nothing_is_exchanged_where_another_user_could_have_put_it(self):
        """A shared working directory such as /tmp, where someone else was first."""
        shared = self.work / "shared"
        (shared / ".warpyard/calls").mkdir(parents=True)
        (shared / ".warpyard/calls").chmod(0o777)
        with self.assertRaisesRegex(warpyard.WarpyardError, "calls belongs to another user, or can be written to by one"):
            add.options(client=self.client, workdir=shared).submit(1)
        self.assertEqual(list((shared / ".warpyard/calls").iterdir()), [])

    def test_a_result_that_another_user_could_have_written_is_not_loaded(self):
        call = self.options(add).submit(1)
        call.job.wait(60)
        result = call.directory / "0.result"
        result.write_bytes(pickle.dumps(("returned", 666)))
        result.chmod(0o666)
        with self.assertRaisesRegex(warpyard.WarpyardError, "it is not loaded"):
            call.result(60)
        result.chmod(0o600)
        call.directory.chmod(0o777)
        with self.assertRaisesRegex(warpyard.WarpyardError, "nothing in it is loaded"):
            call.result(60)
        call.directory.chmod(0o700)
        result.rename(result.with_name("elsewhere"))
        result.symlink_to("elsewhere")
        with self.assertRaises(OSError):
            call.result(60)

    def test_many_calls_are_one_job(self):
        call = self.options(add).map([1, 2, 3], [10, 20, 30])
        self.assertEqual(call.result(60), [11, 22, 33])
        self.assertEqual(call.job.view["outcomes"]["succeeded"], 3)

    def test_a_coroutine_waits_for_a_result(self):
        call = self.options(add).submit(1)
        self.assertEqual(asyncio.run(warpyard.aio.result(call, 60)), 2)

    def test_functions_and_types_of_the_script_that_was_started(self):
        script = self.work / "script.py"
        script.write_text(textwrap.dedent("""
            import warpyard

            class Pair:
                def __init__(self, a, b):
                    self.a, self.b = a, b

            @warpyard.task
            def swap(pair):
                return Pair(pair.b, pair.a)

            if __name__ == "__main__":
                swapped = swap.submit(Pair(1, 2)).result(60)
                print(swapped.a, swapped.b)
        """))
        env = {**os.environ, "PYTHONPATH": PACKAGE, "WARPYARD_DATA": str(self.data), "WARPYARD_BIN": BINARY}
        run = subprocess.run([sys.executable, script], env=env, cwd=self.work, capture_output=True, text=True, timeout=120)
        self.assertEqual((run.stdout, run.returncode), ("2 1\n", 0), run.stderr)

    def test_a_function_a_task_could_not_find_is_refused_at_once(self):
        @warpyard.task
        def local():
            pass

        with self.assertRaises(ValueError) as refused:
            self.options(local).submit()
        self.assertIn("inside another function", str(refused.exception))

"""PyTorch models as jobs, with real PyTorch on the CPU: outputs, training, yielding and continuing, what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import torch
import warpyard
import warpyard.torch
from nets import Net, Points
from support import PACKAGE, ServerTest

HERE = str(Path(__file__).resolve().parent)


class Runs(ServerTest):
    UP = ["--policy", "wsjf:granularity=batch"]

    def infer(self, model, dataset, **options):
        return warpyard.torch.infer(model, dataset, client=self.client, workdir=HERE, output=self.output(), **options)

    def train(self, model, dataset, **options):
        return warpyard.torch.train(model, dataset, client=self.client, workdir=HERE, output=self.output(), **options)

    def output(self):
        self.counter = getattr(self, "counter", 0) + 1
        return str(self.work / f"{self.id()}-{self.counter}")

    def preempt(self, run):
        """Has an urgent job take the GPU from a run that has begun."""
        self.assertIn("batches of", next(run.job.logs(follow=True)))
        urgent = self.submit(["true"], gpus=1, priority=9)
        self.assertEqual(urgent.wait(120).outcome, "succeeded")

    def attempts(self, run):
        return len(run.job.refresh()["tasks"][0]["attempts"])

    def test_outputs_are_those_of_the_model(self):
        torch.manual_seed(1)
        model, data = Net().eval(), Points()
        run = self.infer(model, data, batch_size=8, gpu_memory="1GiB")
        outputs = torch.cat(run.outputs(120))
        torch.testing.assert_close(outputs, model(data.points).detach())
        result = run.result()
        self.assertEqual((result["items"], result["batches"], result["device"]), (37, 5, "cpu"))
        self.assertGreater(result["items_per_second"], 0)

    def test_what_an_import_path_leads_to_runs_alike(self):
        torch.manual_seed(0)
        expected = Net(width=5).eval()(Points(10).points).detach()
        run = self.infer("nets:Net", "nets:Points", batch_size=4, granularity="job", model_args={"width": 5},
                         dataset_args={"count": 10}, gpus=0)
        torch.testing.assert_close(torch.cat(run.outputs(120)), expected)

    def test_a_preempted_inference_computes_every_batch_once(self):
        for granularity in ("batch", "item"):
            with self.subTest(granularity):
                model, data = Net(pause=0.05).eval(), Points()
                run = self.infer(model, data, batch_size=4, granularity=granularity, gpu_memory="16GiB")
                self.preempt(run)
                outputs = torch.cat(run.outputs(120))
                self.assertEqual(self.attempts(run), 2)
                torch.testing.assert_close(outputs, model(data.points).detach())
                began = [line for line in run.job.logs() if "yielding" in line]
                self.assertEqual(run.result()["batches"], 10, began)

    def test_a_preempted_training_ends_with_the_weights_of_one_that_was_not(self):
        weights = {}
        for preempted in (False, True):
            torch.manual_seed(3)
            model = Net(pause=0.02 if preempted else 0.0)
            run = self.train(model, Points(), batch_size=8, epochs=6, optimizer="adam", shuffle=True, gpu_memory="16GiB")
            if preempted:
                self.preempt(run)
            weights[preempted] = run.state_dict(120)
            self.assertEqual(len(run.result()["losses"]), 6)
            self.assertEqual(self.attempts(run), 2 if preempted else 1)
        for name, tensor in weights[False].items():
            torch.testing.assert_close(weights[True][name], tensor, msg=name)

    def test_training_learns(self):
        torch.manual_seed(0)
        run = self.train(Net(width=32), Points(300), batch_size=16, epochs=20, optimizer="adam", learning_rate=0.01, gpus=0)
        losses = run.result(120)["losses"]
        self.assertLess(losses[-1], 0.6 * losses[0])

    def test_an_estimate_becomes_the_memory_request(self):
        run = self.infer(Net().eval(), Points(), batch_size=8)
        request = run.job.wait(120, check=True).view["tasks"][0]["needs"]["gpu_memory_bytes"]
        made = warpyard.torch.estimate(Net(), torch.zeros(1, 4), batch=8)
        self.assertEqual(request, made["upper_bytes"])
        self.assertGreater(request, made["inference_peak_bytes"] + made["context_bytes"], "the bound includes the context")
        self.assertLess(request, made["inference_peak_bytes"] + 2 * made["context_bytes"], "once")
        self.assertEqual(made["parameters"], sum(p.numel() for p in Net().parameters()))

    def test_a_document_that_cannot_be_run_says_what_is_wrong_with_it(self):
        documents = {
            "there is no field 'batchsize'; did you mean 'batch_size'?": {"model": "nets:Net", "dataset": "nets:Points", "batchsize": 1},
            "granularity: 'epoch' is none of job, batch, item": {"model": "nets:Net", "dataset": "nets:Points", "granularity": "epoch"},
            "batch_size: 0 is not a number from 1 on": {"model": "nets:Net", "dataset": "nets:Points", "batch_size": 0},
            "model: there is no NoNet in nets": {"model": "nets:NoNet", "dataset": "nets:Points"},
            "model: there is no module nowhere here": {"model": "nowhere:Net", "dataset": "nets:Points"},
            "dataset: nets:Empty is empty": {"model": "nets:Net", "dataset": "nets:Empty"},
            "the field 'dataset' is missing": {"model": "nets:Net"},
        }
        check = "import json, sys; from warpyard.torch import runner\n" \
            "for path in sys.argv[1:]: print(runner.main([path]), file=sys.stderr)"
        paths = []
        for number, document in enumerate(documents.values()):
            path = self.work / f"bad{number}.json"
            path.write_text(json.dumps(document))
            paths.append(str(path))
        ran = subprocess.run([sys.executable, "-c", check, *paths], cwd=HERE, env={"PYTHONPATH": PACKAGE, "PATH": "/usr/bin:/bin"},
                             capture_output=True, text=True, timeout=120)
        expected = "".join(f"error: {message}\n2\n" for message in documents)
        self.assertEqual(ran.stderr, expected)

"""Models and datasets of the tests, as a user's own module would have them."""

import torch
from torch import nn
from torch.utils.data import Dataset


class Net(nn.Module):
    def __init__(self, width=8, pause=0.0):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 3))
        self.pause = pause

    def forward(self, x):
        if self.pause:
            import time

            time.sleep(self.pause)
        return self.layers(x)


class Points(Dataset):
    """Points and their classes, the same every time."""

    def __init__(self, count=37):
        generator = torch.Generator().manual_seed(7)
        self.points = torch.randn(count, 4, generator=generator)
        self.classes = self.points.argmax(1) % 3

    def __len__(self):
        return len(self.points)

    def __getitem__(self, at):
        return self.points[at], self.classes[at]


class Empty(Points):
    def __init__(self):
        super().__init__(0)

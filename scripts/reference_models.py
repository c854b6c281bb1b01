"""Models that estimates are compared with real PyTorch on: several families, none of them known to the estimator by name.

`scripts/export-models` exports each, runs it on the CPU and writes down how many bytes of tensors were alive at most. A model is a
function that gives the module and what makes its inputs for a batch. A scalar result is its loss; any other has scores of classes.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

REFERENCES = {}


def reference(family, batch):
    """Registers a model under its function's name."""

    def register(make):
        REFERENCES[make.__name__] = (family, batch, make)
        return make

    return register


def images(size, channels=3):
    return lambda batch: (torch.randn(batch, channels, size, size),)


def tokens(length, vocabulary):
    return lambda batch: (torch.randint(0, vocabulary, (batch, length)),)


# Convolutional networks


@reference("cnn", 16)
def plain_cnn():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

    model = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128 * 64, 100))
    return model, images(64)


@reference("cnn", 8)
def bottleneck_resnet():
    class Bottleneck(nn.Module):
        def __init__(self, i, width, stride):
            super().__init__()
            self.a, self.na = nn.Conv2d(i, width, 1, bias=False), nn.BatchNorm2d(width)
            self.b, self.nb = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.c, self.nc = nn.Conv2d(width, width * 4, 1, bias=False), nn.BatchNorm2d(width * 4)
            self.skip = nn.Sequential(nn.Conv2d(i, width * 4, 1, stride, bias=False), nn.BatchNorm2d(width * 4))

        def forward(self, x):
            y = F.relu(self.na(self.a(x)), inplace=True)
            y = F.relu(self.nb(self.b(y)), inplace=True)
            y = self.nc(self.c(y))
            y += self.skip(x)
            return F.relu(y, inplace=True)

    model = nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Bottleneck(32, 32, 1), Bottleneck(128, 64, 2), Bottleneck(256, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
    )
    return model, images(96)


@reference("cnn", 8)
def dense_cnn():
    class Dense(nn.Module):
        def __init__(self, i, growth, layers):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(nn.BatchNorm2d(i + at * growth), nn.ReLU(), nn.Conv2d(i + at * growth, growth, 3, padding=1, bias=False))
                for at in range(layers)
            )

        def forward(self, x):
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            return x

    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), Dense(24, 12, 6), nn.Conv2d(96, 48, 1), nn.AvgPool2d(2), Dense(48, 12, 6),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(120, 10),
    )
    return model, images(48)


@reference("mobile", 8)
def inverted_residuals():
    class Squeeze(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

        def forward(self, x):
            scale = F.adaptive_avg_pool2d(x, 1)
            return x * F.hardsigmoid(self.up(F.relu(self.down(scale))))

    class Inverted(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            wide = i * 4
            self.residual = i == o and stride == 1
            self.layers = nn.Sequential(
                nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(inplace=True),
                nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
                Squeeze(wide), nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o),
            )

        def forward(self, x):
            return x + self.layers(x) if self.residual else self.layers(x)

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish(), Inverted(16, 24, 2), Inverted(24, 24, 1), Inverted(24, 40, 2),
        Inverted(40, 40, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(40, 100),
    )
    return model, images(112)


@reference("mobile", 8)
def torchvision_efficientnet():
    import torchvision

    return torchvision.models.efficientnet_b0(num_classes=100), images(96)


# Attention


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal, dropout=0.0):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


@reference("vit", 8)
def small_vit():
    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 192, 8, 8)
            self.token = nn.Parameter(torch.zeros(1, 1, 192))
            self.position = nn.Parameter(torch.zeros(1, 65, 192))
            self.blocks = nn.Sequential(*[Block(192, 3, False) for _ in range(6)])
            self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 100)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Vit(), images(64)


@reference("vit", 4)
def torchvision_vit():
    import torchvision

    shape = dict(image_size=64, patch_size=8, num_layers=4, num_heads=4, hidden_dim=256, mlp_dim=1024, num_classes=100)
    return torchvision.models.VisionTransformer(**shape, dropout=0.1), images(64)


@reference("decoder", 4)
def tied_decoder():
    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(5000, 256), nn.Embedding(128, 256)
            self.blocks = nn.Sequential(*[Block(256, 4, True, 0.1) for _ in range(4)])
            self.norm = nn.LayerNorm(256)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            return F.linear(self.norm(self.blocks(x)), self.words.weight)

    return Gpt(), tokens(128, 5000)


@reference("decoder", 2)
def rotary_decoder():
    class RmsNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    class Layer(nn.Module):
        def __init__(self, width=256, heads=8, groups=2):
            super().__init__()
            self.heads, self.groups, self.each = heads, groups, width // heads
            self.q = nn.Linear(width, width, bias=False)
            self.k, self.v = (nn.Linear(width, groups * self.each, bias=False) for _ in range(2))
            self.o = nn.Linear(width, width, bias=False)
            self.gate, self.up = (nn.Linear(width, 688, bias=False) for _ in range(2))
            self.down = nn.Linear(688, width, bias=False)
            self.n1, self.n2 = RmsNorm(width), RmsNorm(width)

        def rotate(self, x, cos, sin):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        def forward(self, x, cos, sin):
            batch, length, width = x.shape
            y = self.n1(x)
            q = self.q(y).view(batch, length, self.heads, self.each).transpose(1, 2)
            k = self.k(y).view(batch, length, self.groups, self.each).transpose(1, 2)
            v = self.v(y).view(batch, length, self.groups, self.each).transpose(1, 2)
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
            scores = q @ k.transpose(2, 3) / math.sqrt(self.each)
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
            x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
            y = self.n2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(4000, 256), nn.Linear(256, 4000, bias=False)
            self.layers = nn.ModuleList(Layer() for _ in range(3))
            self.norm = RmsNorm(256)
            angle = torch.outer(torch.arange(192.0), 10000 ** -(torch.arange(0, 32, 2) / 32)).repeat(1, 2)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

        def forward(self, ids):
            x = self.words(ids)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(self.norm(x))

    return Llama(), tokens(192, 4000)


@reference("encoder-decoder", 4)
def seq2seq_transformer():
    class Translate(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(2000, 128), nn.Embedding(2000, 128)
            self.transformer = nn.Transformer(128, 4, 2, 2, 512, 0.1, batch_first=True)
            self.head = nn.Linear(128, 2000)

        def forward(self, source, target):
            return self.head(self.transformer(self.source(source), self.target(target)))

    def inputs(batch):
        return torch.randint(0, 2000, (batch, 64)), torch.randint(0, 2000, (batch, 48))

    return Translate(), inputs


# Recurrent networks


@reference("rnn", 16)
def lstm_classifier():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(3000, 128)
            self.lstm = nn.LSTM(128, 256, num_layers=2, batch_first=True)
            self.head = nn.Linear(256, 20)

        def forward(self, ids):
            y, _ = self.lstm(self.words(ids))
            return self.head(y[:, -1])

    return Classifier(), tokens(64, 3000)


@reference("rnn", 16)
def gru_language_model():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(2000, 128)
            self.gru = nn.GRU(128, 192, num_layers=2, batch_first=True, dropout=0.2)
            self.head = nn.Linear(192, 2000)

        def forward(self, ids):
            return self.head(self.gru(self.words(ids))[0].contiguous())

    return Language(), tokens(48, 2000)


# Dense prediction and generation


@reference("unet", 4)
def transposed_unet():
    def double(i, o):
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        )

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.d3 = double(3, 16), double(16, 32), double(32, 64)
            self.u2, self.u1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.c2, self.c1, self.head = double(64, 32), double(32, 16), nn.Conv2d(16, 5, 1)

        def forward(self, x):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            y = self.u2(self.d3(F.max_pool2d(b, 2)))
            y = self.u1(self.c2(torch.cat([y, b], 1)))
            return self.head(self.c1(torch.cat([y, a], 1)))

    return Unet(), images(96)


@reference("unet", 2)
def diffusion_unet():
    class Residual(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.n1, self.n2 = nn.GroupNorm(8, i), nn.GroupNorm(8, o)
            self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
            self.time, self.skip = nn.Linear(64, o), nn.Conv2d(i, o, 1)

        def forward(self, x, t):
            y = self.c1(F.silu(self.n1(x)))
            y = y + self.time(F.silu(t))[:, :, None, None]
            return self.c2(F.silu(self.n2(y))) + self.skip(x)

    class Diffusion(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
            self.inward, self.outward = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 3, 3, padding=1)
            self.r1, self.r2, self.r3 = Residual(32, 32), Residual(32, 64), Residual(96, 32)
            self.down, self.norm = nn.Conv2d(32, 32, 3, 2, 1), nn.GroupNorm(8, 64)
            self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

        def forward(self, x, t, noise):
            angle = t[:, None] * torch.exp(torch.arange(16, device=t.device) * (-math.log(10000) / 16))
            t = self.time(torch.cat([angle.sin(), angle.cos()], -1))
            a = self.r1(self.inward(x), t)
            b = self.r2(self.down(a), t)
            batch, channels, height, width = b.shape
            flat = self.norm(b).flatten(2).transpose(1, 2)
            flat = self.attention(flat, flat, flat, need_weights=False)[0]
            b = b + flat.transpose(1, 2).reshape(batch, channels, height, width)
            y = self.r3(torch.cat([F.interpolate(b, scale_factor=2.0, mode="nearest"), a], 1), t)
            return F.mse_loss(self.outward(y), noise)

    def inputs(batch):
        return torch.randn(batch, 3, 48, 48), torch.rand(batch) * 1000, torch.randn(batch, 3, 48, 48)

    return Diffusion(), inputs


@reference("autoencoder", 8)
def variational_autoencoder():
    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2))
            self.mean, self.log_variance = nn.Linear(64 * 256, 64), nn.Linear(64 * 256, 64)
            self.widen = nn.Linear(64, 64 * 256)
            self.decode = nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid())

        def forward(self, x):
            y = self.encode(x).flatten(1)
            mean, log_variance = self.mean(y), self.log_variance(y)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            made = self.decode(self.widen(z).view(-1, 64, 16, 16))
            divergence = -0.5 * torch.mean(1 + log_variance - mean.pow(2) - log_variance.exp())
            return F.binary_cross_entropy(made, x.sigmoid()) + divergence

    return Vae(), images(64)


# Perceptrons and the rest


@reference("mlp", 256)
def deep_mlp():
    layers = [layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.LayerNorm(512), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(512, 50)), lambda batch: (torch.randn(batch, 512),)


@reference("mlp", 8)
def mlp_mixer():
    class Mixer(nn.Module):
        def __init__(self, width, length):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.across = nn.Sequential(nn.Linear(length, 128), nn.GELU(), nn.Linear(128, length))
            self.within = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width))

        def forward(self, x):
            x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.within(self.n2(x))

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.head = nn.Conv2d(3, 128, 8, 8), nn.Linear(128, 100)
            self.layers = nn.Sequential(*[Mixer(128, 64) for _ in range(4)])

        def forward(self, x):
            return self.head(self.layers(self.patch(x).flatten(2).transpose(1, 2)).mean(1))

    return Whole(), images(64)


@reference("recommender", 512)
def recommender():
    class Recommend(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(1000, 32, mode="sum") for _ in range(6))
            self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(32 + 21, 128), nn.ReLU(), nn.Linear(128, 2))

        def forward(self, dense, sparse):
            rows = [self.bottom(dense)] + [table(sparse[:, at]) for at, table in enumerate(self.tables)]
            stacked = torch.stack(rows, 1)
            products = torch.bmm(stacked, stacked.transpose(1, 2))
            at = torch.tril_indices(7, 7, -1)
            return self.top(torch.cat([rows[0], products[:, at[0], at[1]]], 1))

    return Recommend(), lambda batch: (torch.randn(batch, 13), torch.randint(0, 1000, (batch, 6, 4)))


@reference("temporal", 8)
def temporal_convolutions():
    class Layer(nn.Module):
        def __init__(self, width, dilation):
            super().__init__()
            self.pad = 2 * dilation
            self.filter, self.gate = (nn.Conv1d(width, width, 3, dilation=dilation) for _ in range(2))
            self.mix = nn.Conv1d(width, width, 1)

        def forward(self, x):
            y = F.pad(x, (self.pad, 0))
            return x + self.mix(torch.tanh(self.filter(y)) * torch.sigmoid(self.gate(y)))

    model = nn.Sequential(nn.Conv1d(8, 64, 1), *[Layer(64, 2**at) for at in range(5)], nn.ReLU(), nn.Conv1d(64, 32, 1))
    return model, lambda batch: (torch.randn(batch, 8, 512),)


@reference("points", 8)
def point_network():
    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [3, 64, 128, 512]
            self.each = nn.Sequential(
                *[layer for i, o in zip(widths, widths[1:]) for layer in (nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())]
            )
            self.head = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.4), nn.Linear(128, 40))

        def forward(self, x):
            return self.head(self.each(x).max(2)[0])

    return Points(), lambda batch: (torch.randn(batch, 3, 512),)


@reference("video", 2)
def video_network():
    layers = [
        layer
        for i, o in ((3, 16), (16, 32), (32, 64))
        for layer in (nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.ReLU(inplace=True), nn.MaxPool3d(2))
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 30)), lambda batch: (torch.randn(batch, 3, 8, 48, 48),)

//! How many multiply-adds a network needs for one image, added up layer by layer from its published architecture.
//!
//! Only convolutions and the last linear layer are counted, as is usual; additions, pooling, normalisation and activations
//! are left out. The tables are those of torchvision, which at 224x224 gives the figures the tests compare with:
//! K. He et al. (2015) for ResNet, C. Szegedy et al. (2014) for GoogLeNet (its 5x5 branch is 3x3 there), F. N. Iandola et
//! al. (2016) for SqueezeNet 1.0. All end in 1000 classes.

/// The networks of the model scheduling experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// ResNet-18.
    Resnet18,
    /// ResNet-50.
    Resnet50,
    /// GoogLeNet, without the heads that help training.
    Googlenet,
    /// SqueezeNet 1.0.
    Squeezenet,
}

const CLASSES: u64 = 1000;

impl Model {
    /// Multiply-adds for one square image of this many pixels a side.
    pub fn multiply_adds(self, side: u64) -> u64 {
        let mut network = Network { side, channels: 3, sum: 0 };
        match self {
            Model::Resnet18 => resnet(&mut network, [2, 2, 2, 2], false),
            Model::Resnet50 => resnet(&mut network, [3, 4, 6, 3], true),
            Model::Googlenet => googlenet(&mut network),
            Model::Squeezenet => squeezenet(&mut network),
        }
        network.sum
    }
}

/// A network as far as it has been added up: the size of what comes out there, and the sum.
struct Network {
    side: u64,
    channels: u64,
    sum: u64,
}

impl Network {
    /// A convolution; also gives the side it leaves, for branches.
    fn conv(&mut self, out: u64, kernel: u64, stride: u64, padding: u64) {
        self.side = (self.side + 2 * padding - kernel) / stride + 1;
        self.sum += self.side * self.side * self.channels * out * kernel * kernel;
        self.channels = out;
    }

    /// Pooling that rounds its size up or down.
    fn pool(&mut self, kernel: u64, stride: u64, padding: u64, up: bool) {
        let slack = self.side + 2 * padding - kernel;
        self.side = if up { slack.div_ceil(stride) } else { slack / stride } + 1;
    }

    /// Several ways from the same place, beside each other; each is a list of (channels, kernel) with stride 1 that keeps the
    /// size. What they give is joined.
    fn beside(&mut self, ways: &[&[(u64, u64)]]) {
        let (channels, mut joined) = (self.channels, 0);
        for way in ways {
            self.channels = channels;
            way.iter().for_each(|&(out, kernel)| self.conv(out, kernel, 1, kernel / 2));
            joined += self.channels;
        }
        self.channels = joined;
    }

    /// The mean over the image and a linear layer.
    fn classify(&mut self) {
        self.sum += self.channels * CLASSES;
    }
}

fn resnet(network: &mut Network, blocks: [u64; 4], bottleneck: bool) {
    network.conv(64, 7, 2, 3);
    network.pool(3, 2, 1, false);
    for (stage, count) in (0..).zip(blocks) {
        let width = 64 << stage;
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let out = if bottleneck { 4 * width } else { width };
            let (side, channels) = (network.side, network.channels);
            if bottleneck {
                network.conv(width, 1, 1, 0);
                network.conv(width, 3, stride, 1);
                network.conv(out, 1, 1, 0);
            } else {
                network.conv(width, 3, stride, 1);
                network.conv(out, 3, 1, 1);
            }
            if stride != 1 || channels != out {
                let mut shortcut = Network { side, channels, sum: 0 };
                shortcut.conv(out, 1, stride, 0);
                network.sum += shortcut.sum;
            }
        }
    }
    network.classify();
}

fn googlenet(network: &mut Network) {
    let inception = |network: &mut Network, [a, b, bb, c, cc, d]: [u64; 6]| {
        network.beside(&[&[(a, 1)], &[(b, 1), (bb, 3)], &[(c, 1), (cc, 3)], &[(d, 1)]]);
    };
    network.conv(64, 7, 2, 3);
    network.pool(3, 2, 0, true);
    network.conv(64, 1, 1, 0);
    network.conv(192, 3, 1, 1);
    network.pool(3, 2, 0, true);
    inception(network, [64, 96, 128, 16, 32, 32]);
    inception(network, [128, 128, 192, 32, 96, 64]);
    network.pool(3, 2, 0, true);
    inception(network, [192, 96, 208, 16, 48, 64]);
    inception(network, [160, 112, 224, 24, 64, 64]);
    inception(network, [128, 128, 256, 24, 64, 64]);
    inception(network, [112, 144, 288, 32, 64, 64]);
    inception(network, [256, 160, 320, 32, 128, 128]);
    network.pool(2, 2, 0, true);
    inception(network, [256, 160, 320, 32, 128, 128]);
    inception(network, [384, 192, 384, 48, 128, 128]);
    network.classify();
}

fn squeezenet(network: &mut Network) {
    let fire = |network: &mut Network, squeeze: u64, expand: u64| {
        network.conv(squeeze, 1, 1, 0);
        network.beside(&[&[(expand, 1)], &[(expand, 3)]]);
    };
    network.conv(96, 7, 2, 0);
    network.pool(3, 2, 0, true);
    fire(network, 16, 64);
    fire(network, 16, 64);
    fire(network, 32, 128);
    network.pool(3, 2, 0, true);
    fire(network, 32, 128);
    fire(network, 48, 192);
    fire(network, 48, 192);
    fire(network, 64, 256);
    network.pool(3, 2, 0, true);
    fire(network, 64, 256);
    network.conv(CLASSES, 1, 1, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What torchvision states for its weights; GoogLeNet's is stated as 1.498 thousand million.
    #[test]
    fn at_224_they_are_what_torchvision_states() {
        assert_eq!(Model::Resnet18.multiply_adds(224), 1_814_073_344);
        assert_eq!(Model::Resnet50.multiply_adds(224), 4_089_184_256);
        assert_eq!(Model::Squeezenet.multiply_adds(224), 818_924_576);
        assert_eq!(Model::Googlenet.multiply_adds(224) / 1_000_000, 1_498);
    }

    /// By hand for the first layers of ResNet-18 at 32x32: 16² · 3 · 64 · 7² and then four of 8² · 64 · 64 · 3².
    #[test]
    fn at_32_the_first_layers_add_up() {
        let mut network = Network { side: 32, channels: 3, sum: 0 };
        network.conv(64, 7, 2, 3);
        assert_eq!((network.side, network.sum), (16, 2_408_448));
        network.pool(3, 2, 1, false);
        (0..4).for_each(|_| network.conv(64, 3, 1, 1));
        assert_eq!((network.side, network.sum), (8, 2_408_448 + 4 * 2_359_296));
        assert_eq!(Model::Resnet18.multiply_adds(32), 37_523_456);
    }
}

"""The nets for frameworks whose layers are functions: JAX and TensorFlow."""

import common


class LayeredNets:
    """A subclass has the layers, conv, dense, batch_norm, relu, sigmoid, max_pool2, mean_pool7, flatten
    and dropout, and the net's name in `model`."""

    def logits(self, x):
        return getattr(self, self.model.split("-")[0])(x)

    def lenet(self, x):
        for width in (32, 64):
            x = self.max_pool2(self.relu(self.conv(x, width, 5, bias=True)))
        x = self.relu(self.dense(self.flatten(x), 1024))
        return self.dense(self.dropout(x, 0.4), 10)

    def resnet(self, x):
        x = self.relu(self.batch_norm(self.conv(x, 16, 3, padding=1)))
        for channels, width, stride in common.resnet_blocks(self.model):
            y = self.relu(self.batch_norm(self.conv(x, width, 3, stride, padding=1)))
            y = self.batch_norm(self.conv(y, width, 3, padding=1))
            if channels != width:
                x = self.batch_norm(self.conv(x, width, 1, stride))
            x = self.relu(x + y)
        return self.dense(self.flatten(self.mean_pool7(x)), 10)

    def mlp(self, x):
        for _ in range(8):
            x = self.sigmoid(self.dense(x, 512))
        return self.dense(x, 2)

    def vgg(self, x):
        for number, block in enumerate(common.VGG_BLOCKS):
            for unit, width in enumerate(block):
                if unit > 0:
                    x = self.dropout(x, 0.3 if number == 0 else 0.4)
                x = self.batch_norm(
                    self.relu(self.conv(x, width, 3, padding=1, bias=True)), 1e-3, 0.99
                )
            x = self.max_pool2(x)
        x = self.relu(self.dense(self.dropout(self.flatten(x), 0.5), 512))
        x = self.batch_norm(x, 1e-3, 0.99)
        return self.dense(self.dropout(x, 0.5), 100)

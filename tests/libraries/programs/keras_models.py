"""Keras on its PyTorch backend: layers, fit, evaluation, saving, training steps of one's own."""

import os
import tempfile

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy
import torch
from keras import layers
from showing import gradients, show

keras.utils.set_random_seed(0)
rng = numpy.random.default_rng(0)
x = rng.normal(size=(48, 6)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int32")


def weights(model, seed=1):
    """The same weights in every run, however Keras draws its own."""
    draw = numpy.random.default_rng(seed)
    for w in model.weights:
        if w.dtype.startswith("float"):
            scale = 1.0 if "variance" in w.path or "gamma" in w.path else 0.0
            w.assign(scale + 0.3 * draw.uniform(-scale, 1, size=w.shape))


model = keras.Sequential(
    [
        layers.Input((6,)),
        layers.Dense(16, activation="gelu"),
        layers.BatchNormalization(),
        layers.Dense(2, activation="softmax", kernel_regularizer="l2"),
    ]
)
weights(model)
model.compile(
    keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 20), clipnorm=1.0),
    "sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
seen = model.fit(
    x,
    y,
    epochs=3,
    batch_size=16,
    shuffle=False,
    validation_split=0.25,
    verbose=0,
    callbacks=[keras.callbacks.TerminateOnNaN()],
)
show("fit", seen.history)
show("evaluated", model.evaluate(x, y, verbose=0))
show("predicted", model.predict(x, verbose=0), model(x[:2]))
with tempfile.TemporaryDirectory() as folder:
    model.save(folder + "/model.keras")
    again = keras.models.load_model(folder + "/model.keras")
    show("saved", numpy.abs(again.predict(x, verbose=0) - model.predict(x, verbose=0)).max())
    again.fit(x, y, epochs=1, shuffle=False, verbose=0)
    show("resumed", again.optimizer.iterations, again.predict(x, verbose=0))
    model.save_weights(folder + "/some.weights.h5")
    model.load_weights(folder + "/some.weights.h5")

images = rng.normal(size=(2, 12, 12, 3)).astype("float32")
into = layers.Input((12, 12, 3))
h = layers.Conv2D(8, 3, padding="same", activation="relu")(into)
h = layers.SeparableConv2D(8, 3, strides=2, padding="same")(h)
h = layers.add([h, layers.DepthwiseConv2D(3, padding="same")(h)])
h = layers.GroupNormalization(4)(h)
h = layers.MaxPooling2D()(h)
h = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(h)
h = layers.UpSampling2D(2, interpolation="bilinear")(h)
h = layers.Concatenate()([h, layers.Conv2D(4, 1)(into)])
out = layers.Dense(3)(layers.GlobalAveragePooling2D()(h))
pictures = keras.Model(into, out)
weights(pictures)
result = pictures(images)
result.square().mean().backward()
show("images", result, gradients(pictures), pictures.count_params())

words = rng.integers(1, 20, size=(3, 7))
into = layers.Input((7,), dtype="int32")
h = layers.Embedding(20, 8, mask_zero=True)(into)
h = layers.LSTM(8, return_sequences=True)(h)
h = layers.Bidirectional(layers.GRU(4, return_sequences=True))(h)
h = layers.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True)
h = layers.LayerNormalization()(h)
h = layers.Conv1D(6, 3, padding="causal")(h)
h = layers.SimpleRNN(5)(h)
text = keras.Model(into, layers.Dense(4)(h))
weights(text)
result = text(words)
result.square().mean().backward()
show("words", result, gradients(text))


class Regression(keras.Model):
    """A step of training of one's own."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(8, activation="tanh")
        self.last = layers.Dense(1)
        self.seen = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.last(self.first(x))

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = keras.losses.mean_squared_error(y, self(x, training=True)).mean()
        loss.backward()
        trainable = list(self.trainable_weights)
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in trainable], trainable)
        self.seen.update_state(loss)
        return {"loss": self.seen.result()}


own = Regression()
own(x[:1])
weights(own)
own.compile(optimizer=keras.optimizers.AdamW(0.02))
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(x.sum(1, keepdims=True))), 16
)
show("own step", own.fit(loader, epochs=3, verbose=0).history, own(x[:3]))
for name in ("SGD", "RMSprop", "Adagrad", "Adadelta", "Nadam", "Lion", "Ftrl", "Adamax"):
    weights(own)
    own.compile(optimizer=getattr(keras.optimizers, name)(0.01))
    show(name, own.fit(loader, epochs=1, verbose=0).history["loss"], own.last.kernel.value)

a = keras.ops.convert_to_tensor(rng.normal(size=(4, 5)).astype("float32"))
for name, f in {
    "einsum": lambda: keras.ops.einsum("ij,kj->ik", a, a),
    "top_k": lambda: keras.ops.top_k(a, 2),
    "segments": lambda: keras.ops.segment_sum(a, keras.ops.array([0, 0, 1, 1]), 2),
    "scan": lambda: keras.ops.scan(lambda c, x: (c + x, c), keras.ops.zeros(5), a),
    "loop": lambda: keras.ops.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,)),
    "cond": lambda: keras.ops.cond(keras.ops.any(a > 0), lambda: a * 2, lambda: a),
    "map": lambda: keras.ops.vectorized_map(lambda row: keras.ops.sum(row**2), a),
    "svd": lambda: keras.ops.svd(a, compute_uv=False),
    "images": lambda: keras.ops.image.resize(images, (5, 7)),
    "affine": lambda: keras.ops.image.affine_transform(
        images, numpy.array([[1, 0.1, 0, 0, 1, 0, 0, 0]] * 2, "float32")
    ),
    "stft": lambda: keras.ops.stft(keras.ops.reshape(a, (20,)), 8, 4, 8),
    "scatter": lambda: keras.ops.scatter_update(a, [[0, 1], [2, 3]], [5.0, 6.0]),
    "quantile": lambda: keras.ops.quantile(a, [0.2, 0.7]),
    "crop": lambda: keras.ops.slice(a, (1, 1), (2, 3)),
    "one hot": lambda: keras.ops.multi_hot([[0, 2], [1, 1]], 4),
    "ctc": lambda: keras.ops.ctc_loss(
        numpy.array([[1, 2]]), keras.ops.softmax(keras.ops.reshape(a, (1, 4, 5))), [2], [4]
    ),
}.items():
    show(name, f())
keras.mixed_precision.set_global_policy("mixed_bfloat16")
half = keras.Sequential([layers.Input((6,)), layers.Dense(8, "relu"), layers.Dense(1)])
weights(half)
show("bfloat16", half(x[:3]).dtype, half(x[:3]).float())

"""tf.data on an image folder: pictures a second, as JSON lines on standard output.

    python -m bench.input.tensorflow_input FOLDER THREADS PICTURES

Each picture is decoded by decode_and_crop_jpeg, which decodes the crop alone, and resized bilinearly.
"""

import json
import pathlib
import sys
import time

import tensorflow as tf

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 16


def image(path):
    data = tf.io.read_file(path)
    shape = tf.image.extract_jpeg_shape(data)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    crop = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    crop = tf.image.random_flip_left_right(tf.image.resize(crop, [224, 224]))
    return (crop / 255.0 - MEAN) / DEVIATION


def main():
    folder, threads, pictures = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    paths = []
    for path in sorted(pathlib.Path(folder).glob("*/*")):
        # It reads neither CMYK nor, by this op, PNG.
        with open(path, "rb") as file:
            head = file.read()
        if head[:3] == b"\xff\xd8\xff" and b"Adobe" not in head[:200]:
            paths.append(str(path))
    data = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).take(pictures)
    data = data.map(image, num_parallel_calls=threads).batch(BATCH).prefetch(4)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    data = data.with_options(options)
    for _ in range(3):  # the first builds the graph
        begin = time.perf_counter()
        seen = sum(int(batch.shape[0]) for batch in data)
        seconds = time.perf_counter() - begin
        print(json.dumps({"pictures_per_second": seen / seconds}), flush=True)


if __name__ == "__main__":
    main()

"""A line chart as SVG: the frame, grid and labels that the pictures share."""

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 44
COLOURS = [
    *("#0b6e4f", "#d1495b", "#30638e", "#edae49", "#7b5ea7"),
    *("#6c757d", "#2a9df4", "#8f5a2a", "#e377c2"),
]


def colour(i):
    return COLOURS[i % len(COLOURS)]


class Chart:
    """`x_range` and `y_range` are the values at the edges; add elements to `out`."""

    def __init__(self, title, x_label, x_range, y_range):
        self.x_range, self.y_range = x_range, y_range
        self.out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" '
            f'text-anchor="middle">{x_label}</text>',
        ]

    def x(self, value):
        low, high = self.x_range
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def level(self, value, text):
        """A horizontal grid line with its label."""
        y = self.y(value)
        self.out.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )

    def tick(self, value, text):
        self.out.append(
            f'<text x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" '
            f'text-anchor="middle">{text}</text>'
        )

    def line(self, points, colour, width=1.5, opacity=1):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        faint = f' stroke-opacity="{opacity}"' if opacity != 1 else ""
        style = f'fill="none" stroke="{colour}" stroke-width="{width}"{faint}'
        self.out.append(f'<polyline points="{path}" {style}/>')

    def dot(self, x, y, colour):
        self.out.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" fill="{colour}"/>')

    def legend(self, row, text, colour):
        """At the right, rows growing from the bottom upwards."""
        self.out.append(
            f'<text x="{WIDTH - RIGHT - 8}" y="{HEIGHT - BOTTOM - 12 - 18 * row}" '
            f'text-anchor="end" fill="{colour}">{text}</text>'
        )

    def text(self):
        return "\n".join([*self.out, "</svg>", ""])

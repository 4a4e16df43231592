"""Bar charts as SVG texts."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 860, 300, 210, 16, 7, 48
AHEAD, BEHIND = "#2a6f97", "#c8553d"


def ratios(rows: list[tuple[str, float, str]]) -> str:
    """One bar per row (label, ratio, of whom), with a line where both are equally fast."""
    most = max([ratio for _, ratio, _ in rows] + [1.0])
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + len(rows) * (BAR + GAP) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>', '<text x="16" y="24" font-size="15" font-weight="bold">How many times as fast as the best peer</text>']
    for i, (label, ratio, whom) in enumerate(rows):
        y = TOP + i * (BAR + GAP)
        parts += [f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(label.replace("`", ""))}</text>',
                  f'<rect x="{LEFT}" y="{y}" width="{ratio * scale:.1f}" height="{BAR}" fill="{AHEAD if ratio >= 1 else BEHIND}"/>',
                  f'<text x="{LEFT + ratio * scale + 6:.1f}" y="{y + 12}">{ratio:.2f}</text>',
                  f'<text x="{WIDTH - 8}" y="{y + 12}" text-anchor="end" fill="#666">{escape(whom)}</text>']
    x = LEFT + scale
    parts.append(f'<path d="M{x:.1f} {TOP - 8}V{height - 8}" stroke="#444" stroke-dasharray="4 3"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"

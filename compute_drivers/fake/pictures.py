"""The screen of a simulated guest: lines of large letters, drawn without anything but this table."""

from __future__ import annotations

# Letters of three by five dots: a digit per row, its bits the dots.
GLYPHS = {
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "F": "74644", "G": "34553", "H": "55755",
    "I": "72227", "J": "11152", "K": "55655", "L": "44447", "M": "57755", "N": "65555", "O": "25552", "P": "65644",
    "Q": "25563", "R": "65655", "S": "34216", "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255",
    "Y": "55222", "Z": "71247", "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002", ",": "00024", ":": "02020", ";": "02024",
    "-": "00700", "_": "00007", "/": "11244", "\\": "44211", "!": "22202", "?": "71202", "#": "57575", "%": "51245",
    "(": "12221", ")": "42224", "[": "64446", "]": "31113", "{": "32623", "}": "62326", "<": "12421", ">": "42124",
    "=": "07070", "+": "02720", "*": "05250", "'": "22000", '"': "55000", "`": "42000", "^": "25000", "|": "22222",
    "~": "03600", "@": "25743", "&": "25256", "$": "36763", " ": "00000",
}  # fmt: skip
CURSOR = "77777"
DOT = 3  # pixels
CELL_WIDTH, CELL_HEIGHT = 4 * DOT, 7 * DOT
COLUMNS, LINES = 60, 19


class Picture:
    """A text screen of `width` by `height` pixels that remembers which of its rows nobody has seen yet."""

    INK, PAPER = (186, 219, 204), (14, 26, 24)
    width, height = COLUMNS * CELL_WIDTH, LINES * CELL_HEIGHT

    def __init__(self, lines: list[str]) -> None:
        self._lines = [*lines, ""][-LINES:]
        self._changed = (0, LINES)

    def copy(self) -> Picture:
        """The same for one more viewer, who has seen nothing of it."""
        twin = Picture([])
        twin._lines = list(self._lines)
        return twin

    def put(self, character: str) -> None:
        """Write where the cursor is; a full line goes on in the next one."""
        if len(self._lines[-1]) >= COLUMNS - 1:
            self.new_line()
        self._lines[-1] += character
        self._touch_last()

    def rub_out(self) -> None:
        self._lines[-1] = self._lines[-1][:-1]
        self._touch_last()

    def new_line(self) -> None:
        self._lines = [*self._lines, ""][-LINES:]
        self.touch()

    def touch(self) -> None:
        """Everything must be seen again."""
        self._changed = (0, LINES)

    def changed_rows(self) -> tuple[int, int] | None:
        """The first row of pixels that has changed and the one after the last; None for nothing new. Seen from now."""
        (first, last), self._changed = self._changed, (0, 0)
        return (first * CELL_HEIGHT, last * CELL_HEIGHT) if last > first else None

    def pixels(self, first: int, last: int, *, ink: bytes, paper: bytes) -> bytes:
        """Rows of pixels from the top, whole lines of them."""
        lines = range(first // CELL_HEIGHT, last // CELL_HEIGHT)
        return b"".join(self._line(number, ink, paper) for number in lines)

    def _line(self, number: int, ink: bytes, paper: bytes) -> bytes:
        text = self._lines[number] if number < len(self._lines) else ""
        glyphs = [GLYPHS.get(character.upper(), GLYPHS["?"]) for character in text]
        if number == len(self._lines) - 1:
            glyphs.append(CURSOR)
        drawn = []
        for row in range(5):
            dots = "".join(f"{int(glyph[row]):03b}0" for glyph in glyphs).ljust(COLUMNS * 4, "0")
            drawn.append(b"".join((ink if dot == "1" else paper) * DOT for dot in dots) * DOT)
        blank = paper * (self.width * DOT)
        return blank + b"".join(drawn) + blank

    def _touch_last(self) -> None:
        first, last = self._changed
        here = len(self._lines) - 1
        self._changed = (min(first, here), max(last, here + 1)) if last > first else (here, here + 1)

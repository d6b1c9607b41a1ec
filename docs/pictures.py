"""The pictures of docs/first_steps.md, taken of our own pages with Chromium: python docs/pictures.py.

A slow and a fast form of the first example, profiled, each as the top of its page. Not compared by a test: they hold times of the run itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHANGES = {
    "slow": {"BUFFER_NUM = 2": "BUFFER_NUM = 1", "TILE_LENGTH = 2048": "TILE_LENGTH = 512"},
    "fast": {"TILE_LENGTH = 2048": "TILE_LENGTH = 8192"},
}


def picture(page: Path, out: Path, width: int, height: int) -> None:
    """A screenshot of the top of an HTML page."""
    browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    if browser is None:
        sys.exit("pictures need Chromium")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ]
        command += [f"--window-size={width},{height}", f"--screenshot={out}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    source = ROOT / "examples" / "01_add"
    with tempfile.TemporaryDirectory() as folder:
        for name, changes in CHANGES.items():
            kernel = Path(folder) / "add.cpp"
            text = (source / "add_custom.cpp").read_text()
            for old, new in changes.items():
                if old not in text:
                    sys.exit(f"the example no longer says {old}")
                text = text.replace(old, new)
            kernel.write_text(text)
            shutil.copy(source / "add_custom.toml", kernel.with_suffix(".toml"))
            page = Path(folder) / f"{name}.html"
            command = [sys.executable, "-m", "toprope.cli", "profile", str(kernel), "--html", str(page)]
            subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
            picture(page, ROOT / "docs" / "figures" / f"first-steps-{name}.png", 1100, 900)


if __name__ == "__main__":
    main()

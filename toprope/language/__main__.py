"""python -m toprope.language: make the catalogues that gettext reads from the texts that translators write."""

from __future__ import annotations

import polib

from toprope.language import FOLDER

for source in sorted(FOLDER.glob("*/LC_MESSAGES/*.po")):
    polib.pofile(str(source)).save_as_mofile(str(source.with_suffix(".mo")))
    print(f"wrote {source.with_suffix('.mo')}")

"""ELF files: comparison with readelf."""

import re
import unittest

from artifacts.elf import Elf
from artifacts.tests import PROGRAM, ArtifactTest, run


class ElfFiles(ArtifactTest):
    def test_dynamic_section_is_that_of_readelf(self):
        self.needs("readelf")
        text = run(["readelf", "--wide", "--dynamic", "--program-headers", PROGRAM]).stdout
        program = Elf(PROGRAM)
        self.assertEqual(program.needed(), re.findall(r"\(NEEDED\).*\[(.*)\]", text))
        self.assertEqual([program.interpreter()], re.findall(r"program interpreter: (.*)\]", text))

    def test_versions_are_those_of_readelf(self):
        self.needs("readelf")
        text = run(["readelf", "--wide", "--version-info", PROGRAM]).stdout.split("Version needs section")[1]
        found = Elf(PROGRAM).required_versions()
        self.assertEqual(sorted(name for names in found.values() for name in names), sorted(re.findall(r"Name: (\S+)", text)))
        newest = max((tuple(map(int, number.split("."))) for number in re.findall(r"GLIBC_([0-9.]+)", text)))
        self.assertEqual(Elf(PROGRAM).glibc_version(), ".".join(map(str, newest)))


if __name__ == "__main__":
    unittest.main()

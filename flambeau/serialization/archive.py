"""Zip archives as PyTorch lays them out: records, stored as they are, each from a multiple of 64.

The writer knows sizes and checksums beforehand, so it never looks back and any object with `write`
will do; into a file of our own it writes large records in pieces, and their headers last. The
reader trusts nothing: sizes are compared with what the file can hold before memory is taken, and
checksums are compared when a record is read.
"""

import struct
import zipfile
import zlib

from flambeau.serialization import pieces
from flambeau.serialization.checksums import Checksums
from flambeau.serialization.files import descriptor_of, own_descriptor, read_into, size_of

ALIGNMENT = 64
LOCAL, CENTRAL, END = 0x04034B50, 0x02014B50, 0x06054B50
END64, LOCATOR64 = 0x06064B50, 0x07064B50
UTF8 = 0x0800
FULL32, FULL16 = 0xFFFFFFFF, 0xFFFF  # "the number is elsewhere, in 64 bits"
LARGE = FULL32  # numbers from here on take 64 bits
PIECE = 1 << 24
SMALL = 1 << 18  # records from here on are worth the help of other threads
# What deflate can at best do to a run of equal bytes, and some room for tiny records; a whole
# archive may not grow that much, or a file of some megabytes could fill the memory.
MOST_EXPANSION, ROOM = 1032, 4096
WHOLE_EXPANSION, WHOLE_ROOM = 100, 1 << 28

_CORRUPT = (
    "PytorchStreamReader failed {}. If you are seeing this error, there is a high likelihood that "
    "your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, "
    "was transferred incorrectly, or the file was modified after saving."
)


_LOCAL, _CENTRAL = struct.Struct("<IHHHHHIIIHH"), struct.Struct("<IHHHHHHIIIHHHHHII")
_PADDING = struct.Struct("<2sH")


def corrupt(what):
    return RuntimeError(_CORRUPT.format(what))


class ArchiveWriter:
    """Writes records one after the other; `close` writes their directory."""

    def __init__(self, file, root, with_checksums=True):
        self.file, self.write, self.root, self.position = file, file.write, root, 0
        self.with_checksums = with_checksums
        self.directory = []
        self.checksums = 0

    def _put(self, data):
        self.write(data)
        self.position += len(data)

    def _first(self, encoded, size, start):
        """Where the bytes of a record lie whose header begins at `start`."""
        before = start + 30 + len(encoded) + (20 if size >= LARGE else 0) + 4
        return before + -before % ALIGNMENT

    def _header(self, encoded, size, checksum, start):
        """The local header of a record that begins at `start`, up to where its bytes begin."""
        large = struct.pack("<HHQQ", 1, 16, size, size) if size >= LARGE else b""
        padding = self._first(encoded, size, start) - (start + 30 + len(encoded) + len(large) + 4)
        extra = large + _PADDING.pack(b"FB", padding) + b"Z" * padding
        small = FULL32 if large else size
        version = 45 if large else 0
        facts = version, UTF8, 0, 0, 0, checksum, small, small, len(encoded), len(extra)
        return _LOCAL.pack(LOCAL, *facts) + encoded + extra

    def _note(self, encoded, size, checksum, start):
        self.directory.append((encoded, size, checksum, start))
        self.checksums = zlib.crc32(struct.pack("<IQ", checksum, size), self.checksums)

    def add(self, name, data, checksum=None):
        """A record, from bytes or a memoryview of bytes."""
        encoded, size = f"{self.root}/{name}".encode(), len(data)
        if checksum is None:
            checksum = zlib.crc32(data) if self.with_checksums else 0
        start = self.position
        self._put(self._header(encoded, size, checksum, start))
        for place in range(0, size, PIECE):
            self._put(data[place : place + PIECE])
        self._note(encoded, size, checksum, start)

    def add_all(self, records):
        """Records, (name, memoryview of bytes); all memory stays alive meanwhile."""
        if sum([len(data) for _, data in records]) < SMALL:
            return self._add_at_once(records)
        descriptor = own_descriptor(self.file)
        if descriptor is not None and pieces.POSSIBLE:
            return self._add_in_pieces(descriptor, records)
        checksums = Checksums()
        try:
            begin = checksums.begin if self.with_checksums else lambda data: lambda: 0
            begun = [begin(data) for _, data in records]
            for (name, data), checksum in zip(records, begun):
                self.add(name, data, checksum())
        finally:
            checksums.close()

    def _add_at_once(self, records):
        """Small records, in one piece."""
        run, checks = bytearray(), self.with_checksums
        for name, data in records:
            encoded, start = f"{self.root}/{name}".encode(), self.position + len(run)
            checksum = zlib.crc32(data) if checks else 0
            run += self._header(encoded, len(data), checksum, start)
            run += data
            self._note(encoded, len(data), checksum, start)
        self._put(run)

    def _add_in_pieces(self, descriptor, records):
        """Large blocks first, by several threads; then everything between them, in long runs."""
        self.file.flush()
        planned, position = [], self.position
        for name, data in records:
            encoded = f"{self.root}/{name}".encode()
            first = self._first(encoded, len(data), position)
            planned.append((encoded, data, position, first))
            position = first + len(data)
        blocks = [(data, first) for _, data, _, first in planned if len(data) >= SMALL]
        checksums = iter(pieces.write_blocks(descriptor, blocks, self.with_checksums))
        run, run_start = bytearray(), self.position
        for encoded, data, start, first in planned:
            small = len(data) < SMALL
            if not small:
                checksum = next(checksums)
            else:
                checksum = zlib.crc32(data) if self.with_checksums else 0
            run += self._header(encoded, len(data), checksum, start)
            if small:
                run += data
            if not small or len(run) >= PIECE:
                pieces.write_at(descriptor, run, run_start)
                run, run_start = bytearray(), first + len(data)
            self._note(encoded, len(data), checksum, start)
        pieces.write_at(descriptor, run, run_start)
        self.position = self.file.seek(position)

    def _entry(self, encoded, size, checksum, start):
        numbers = [size, size] if size >= LARGE else []
        numbers += [start] if start >= LARGE else []
        extra = (
            struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""
        )
        small = _in_32_bits(size)
        version, name, more = 45 if numbers else 0, len(encoded), len(extra)
        facts = 0, version, UTF8, 0, 0, 0, checksum, small, small, name, more, 0, 0, 0, 0
        return _CENTRAL.pack(CENTRAL, *facts, _in_32_bits(start)) + encoded + extra

    def close(self):
        names = zlib.crc32(b"".join(entry[0] for entry in self.directory))
        # forty digits that tell archives apart, and the same for the same content
        self.add(".data/serialization_id", f"{names:020d}{self.checksums:020d}".encode())
        start, count = self.position, len(self.directory)
        self._put(b"".join(self._entry(*entry) for entry in self.directory))
        size = self.position - start
        if start + size >= LARGE or count >= FULL16:
            numbers = (count, count, size, start)
            self._put(struct.pack("<IQHHIIQQQQ", END64, 44, 45, 45, 0, 0, *numbers))
            self._put(struct.pack("<IIQI", LOCATOR64, 0, start + size, 1))
        counts, places = (min(count, FULL16),) * 2, (_in_32_bits(size), _in_32_bits(start))
        self._put(struct.pack("<IHHHHIIH", END, 0, 0, *counts, *places, 0))


def _in_32_bits(number):
    return FULL32 if number >= LARGE else number


class ArchiveReader:
    """The records of an archive, by their names below its root folder."""

    def __init__(self, file):
        self.file, self.size, self.taken, self.inflated = file, size_of(file), 0, 0
        self.descriptor = descriptor_of(file) if pieces.POSSIBLE else None
        self.checksums, self.unchecked = Checksums(), []
        try:
            self.zip = zipfile.ZipFile(file)
            infos = self.zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, EOFError) as bad:
            raise corrupt(f"reading zip archive: {bad}") from None
        except (OverflowError, OSError, IndexError, MemoryError) as bad:
            raise corrupt(f"reading zip archive: {bad}") from None
        # torch.serialization.set_crc32_options(False) leaves zeros in place of checksums
        self.with_checksums = any(info.CRC for info in infos)
        root = infos[0].filename.partition("/")[0] + "/" if infos else ""
        self.records = {  # of several with one name, the first
            info.filename[len(root) :]: info
            for info in reversed(infos)
            if info.filename.startswith(root)
        }
        if "data.pkl" not in self.records:
            raise corrupt("locating file data.pkl: file not found")

    @property
    def is_torchscript(self):
        return "constants.pkl" in self.records

    def _info(self, name):
        info = self.records.get(name)
        if info is None:
            raise corrupt(f"locating file {name}: file not found")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise corrupt(f"reading file {name}: unsupported compression")
        stored = info.compress_type == zipfile.ZIP_STORED
        if stored and info.file_size != info.compress_size:
            raise corrupt(f"reading file {name}: its sizes disagree")
        if not 0 <= info.header_offset < self.size:
            raise corrupt(f"reading file {name}: it begins outside of the archive")
        if info.compress_size > self.size or (
            not stored and info.file_size > MOST_EXPANSION * info.compress_size + ROOM
        ):
            raise corrupt(f"reading file {name}: it is larger than the archive can hold")
        return info

    def size_of(self, name):
        """Bytes of a record; an impossible size is an error."""
        return self._info(name).file_size

    def reserve(self, name):
        """Bytes of a record that is about to be read, before memory is taken for it."""
        info = self._info(name)
        # records that overlap would ask for more memory than the file has bytes
        self.taken += info.compress_size
        if self.taken > self.size:
            raise corrupt(f"reading file {name}: records overlap")
        self.inflated += info.file_size
        if self.inflated > WHOLE_EXPANSION * self.size + WHOLE_ROOM:
            raise corrupt(f"reading file {name}: the archive is a zip bomb, or as good as one")
        return info.file_size

    def start_of(self, name):
        """Where the bytes of a stored record begin; None if they are compressed."""
        info = self._info(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        self.file.seek(info.header_offset)
        head = self.file.read(30)
        if len(head) < 30 or head[:4] != b"PK\x03\x04" or head[6] & 1:
            raise corrupt(f"reading file {name}: bad local header")
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if start + info.file_size > self.size:
            raise corrupt(f"reading file {name}: it ends after the end of the archive")
        return start

    def read_into(self, name, target):
        """Fill a memoryview, as long as the record, with it; `check` must follow, then `close`."""
        info = self._info(name)
        start = self.start_of(name)
        if start is None:
            return self._inflate_into(name, info, target)
        self.file.seek(start)
        if read_into(self.file, target) != info.file_size:
            raise corrupt(f"reading file {name}: the file ends within it")
        if info.CRC:  # zero where the bytes came later
            self.unchecked.append((name, info.CRC, self.checksums.begin(target)))

    def fill(self, wanted):
        """Fill (name, memoryview) pairs and check them; then `close`."""
        blocks = []
        for name, target in wanted:
            start = self.start_of(name)
            if self.descriptor is None or start is None:
                self.read_into(name, target)
            else:
                blocks.append((name, target, start))
        self.check()
        places = [(target, start) for _, target, start in blocks]
        try:
            found = pieces.read_blocks(self.descriptor, places, self.with_checksums)
        except EOFError as error:
            raise corrupt(f"reading zip archive: {error}") from None
        for (name, _, _), checksum in zip(blocks, found):
            if self._info(name).CRC not in (0, checksum):
                raise corrupt(f"reading file {name}: checksum does not match")

    def check(self):
        """Complain if what was read into buffers is not what was written."""
        while self.unchecked:
            name, wanted, checksum = self.unchecked.pop()
            if checksum() != wanted:
                raise corrupt(f"reading file {name}: checksum does not match")

    def close(self):
        """After this, buffers may go away."""
        self.checksums.close()

    def _inflate_into(self, name, info, target):
        try:
            with self.zip.open(info) as stream:
                count = read_into(stream, target)
                more = stream.read(1)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error) as bad:
            raise corrupt(f"reading file {name}: {bad}") from None
        except (RuntimeError, NotImplementedError, OSError, OverflowError) as bad:
            raise corrupt(f"reading file {name}: {bad}") from None
        if count != len(target) or more:
            raise corrupt(f"reading file {name}: its size is not what the directory says")

    def read(self, name):
        """A record as bytes."""
        data = bytearray(self.reserve(name))
        try:
            self.read_into(name, memoryview(data))
            self.check()
        finally:
            self.close()
        return bytes(data)

"""The native protocol of Cassandra, versions 4 and 5, as bytes: envelopes, segments, and the parts
of messages.

Version 4 sends envelopes as they are. Version 5 does so until the answer to STARTUP; from then on
each side packs its envelopes into segments with checksums. A Decoder takes bytes as they come and
gives groups: the envelopes of one segment, or a single envelope. encode() is its inverse.
Compression by LZ4 is read, and never made: an LZ4 segment may hold its payload as it is.
"""
import struct
import zlib

V4, V5 = 4, 5
ANSWER = 0x80                   # in the first byte of what a server sends
HEADER_SIZE = 9
BODY_MAX = 256 << 20
PAYLOAD_MAX = (1 << 17) - 1
EVENT_STREAM = -1

# Flags of an envelope.
COMPRESSED, TRACING, PAYLOAD, WARNING, BETA = 0x01, 0x02, 0x04, 0x08, 0x10

OPCODES = {
    0x00: 'ERROR', 0x01: 'STARTUP', 0x02: 'READY', 0x03: 'AUTHENTICATE', 0x05: 'OPTIONS',
    0x06: 'SUPPORTED', 0x07: 'QUERY', 0x08: 'RESULT', 0x09: 'PREPARE', 0x0a: 'EXECUTE',
    0x0b: 'REGISTER', 0x0c: 'EVENT', 0x0d: 'BATCH', 0x0e: 'AUTH_CHALLENGE', 0x0f: 'AUTH_RESPONSE',
    0x10: 'AUTH_SUCCESS',
}
OPCODE = {name: number for number, name in OPCODES.items()}

ERRORS = {
    'SERVER_ERROR': 0x0000, 'PROTOCOL_ERROR': 0x000a, 'BAD_CREDENTIALS': 0x0100,
    'UNAVAILABLE': 0x1000, 'OVERLOADED': 0x1001, 'IS_BOOTSTRAPPING': 0x1002,
    'TRUNCATE_ERROR': 0x1003, 'WRITE_TIMEOUT': 0x1100, 'READ_TIMEOUT': 0x1200,
    'READ_FAILURE': 0x1300, 'FUNCTION_FAILURE': 0x1400, 'WRITE_FAILURE': 0x1500,
    'CDC_WRITE_FAILURE': 0x1600, 'CAS_WRITE_UNKNOWN': 0x1700, 'SYNTAX_ERROR': 0x2000,
    'UNAUTHORIZED': 0x2100, 'INVALID': 0x2200, 'CONFIG_ERROR': 0x2300, 'ALREADY_EXISTS': 0x2400,
    'UNPREPARED': 0x2500,
}
ERROR_NAMES = {code: name for name, code in ERRORS.items()}
CONSISTENCY = {name: number for number, name in enumerate(
    ('ANY', 'ONE', 'TWO', 'THREE', 'QUORUM', 'ALL', 'LOCAL_QUORUM', 'EACH_QUORUM', 'SERIAL',
     'LOCAL_SERIAL', 'LOCAL_ONE'))}

VOID, ROWS, SET_KEYSPACE, PREPARED, SCHEMA_CHANGE = 1, 2, 3, 4, 5      # kinds of RESULT
# Flags of the metadata of rows.
GLOBAL_TABLE, HAS_MORE, NO_METADATA, METADATA_CHANGED = 1, 2, 4, 8
CUSTOM, LIST, MAP, SET, UDT, TUPLE = 0x00, 0x20, 0x21, 0x22, 0x30, 0x31


class WireError(Exception):
    """Bytes that are not the protocol."""


class Envelope:
    __slots__ = ('version', 'flags', 'stream', 'opcode', 'body')

    def __init__(self, version, flags, stream, opcode, body):
        self.version, self.flags, self.stream = version, flags, stream
        self.opcode, self.body = opcode, body

    @property
    def name(self):
        return OPCODES.get(self.opcode, f'0x{self.opcode:02x}')

    def pack(self):
        head = (self.version, self.flags, self.stream, self.opcode, len(self.body))
        return struct.pack('>BBhBi', *head) + self.body

    def copy(self, **changes):
        fields = {name: changes.get(name, getattr(self, name)) for name in self.__slots__}
        return Envelope(**fields)


# ---- checksums and segments


def _crc24_table():
    table = []
    for byte in range(256):
        crc = byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974f0b
        table.append(crc)
    return table


_CRC24 = _crc24_table()
_CRC32_SEED = zlib.crc32(bytes.fromhex('fa2d55ca'))


def crc24(data):
    crc = 0x875060
    for byte in data:
        crc = (crc << 8 & 0xffffff) ^ _CRC24[crc >> 16 ^ byte]
    return crc


def crc32(data):
    return zlib.crc32(data, _CRC32_SEED)


def lz4_decompress(block, size):
    """A raw block of LZ4 that holds size bytes."""
    out, at, end = bytearray(), 0, len(block)

    def extended(length, at):
        while length >= 15:
            more = block[at]
            at += 1
            length += more
            if more != 255:
                break
        return length, at

    try:
        while at < end:
            token = block[at]
            literals, at = extended(token >> 4, at + 1)
            out += block[at:at + literals]
            at += literals
            if at >= end:
                break
            distance = block[at] | block[at + 1] << 8
            length, at = extended(token & 15, at + 2)
            if not 0 < distance <= len(out):
                raise WireError('LZ4: a match before the beginning')
            length += 4
            seen = out[len(out) - distance:][:length]
            # A match may overlap what it makes.
            out += (seen * (length // len(seen) + 1))[:length]
    except IndexError:
        raise WireError('LZ4: cut off') from None
    if len(out) != size:
        raise WireError(f'LZ4: {len(out)} bytes, {size} were announced')
    return bytes(out)


def pack_segment(payload, whole=True, lz4=False):
    """One segment; whole: its envelopes begin and end in it."""
    if lz4:
        # Uncompressed length 0: it is as it is.
        header = (len(payload) | whole << 34).to_bytes(5, 'little')
    else:
        header = (len(payload) | whole << 17).to_bytes(3, 'little')
    return (header + crc24(header).to_bytes(3, 'little') + payload +
            crc32(payload).to_bytes(4, 'little'))


def unpack_segment(buffer, lz4=False):
    """(payload, whole, its size as sent) of the segment at the beginning of buffer; None: it is not
    all there."""
    size = 5 if lz4 else 3
    if len(buffer) < size + 3:
        return None
    header = int.from_bytes(buffer[:size], 'little')
    if crc24(buffer[:size]) != int.from_bytes(buffer[size:size + 3], 'little'):
        raise WireError('the checksum of a segment header is wrong')
    length, plain_length = header & PAYLOAD_MAX, header >> 17 & PAYLOAD_MAX if lz4 else 0
    whole = bool(header >> (34 if lz4 else 17) & 1)
    begin, end = size + 3, size + 3 + length
    if len(buffer) < end + 4:
        return None
    payload = bytes(buffer[begin:end])
    if crc32(payload) != int.from_bytes(buffer[end:end + 4], 'little'):
        raise WireError('the checksum of a segment payload is wrong')
    return lz4_decompress(payload, plain_length) if plain_length else payload, whole, end + 4


def unpack_envelope(buffer):
    """The envelope at the beginning of buffer, or None: it is not all there."""
    if len(buffer) < HEADER_SIZE:
        return None
    version, flags, stream, opcode, length = struct.unpack_from('>BBhBi', buffer)
    if not 0 <= length <= BODY_MAX:
        raise WireError(f'an envelope of {length} bytes')
    if len(buffer) < HEADER_SIZE + length:
        return None
    return Envelope(version, flags, stream, opcode, bytes(buffer[HEADER_SIZE:HEADER_SIZE + length]))


class Decoder:
    """Bytes in, groups of envelopes out. framed and lz4 are set by who knows that the handshake is
    over."""

    def __init__(self):
        self.framed = self.lz4 = False
        self._buffer = bytearray()
        self._parts = bytearray()       # of an envelope over several segments

    def feed(self, data):
        self._buffer += data

    def next(self):
        """The next group, or None: more bytes are needed."""
        while self.framed:
            found = unpack_segment(self._buffer, self.lz4)
            if found is None:
                return None
            payload, whole, size = found
            del self._buffer[:size]
            if whole:
                if self._parts:
                    raise WireError('a segment of its own inside a large envelope')
                return self._split(payload)
            self._parts += payload
            envelope = unpack_envelope(self._parts)
            if envelope is not None:
                if len(self._parts) != HEADER_SIZE + len(envelope.body):
                    raise WireError('bytes behind a large envelope in its last segment')
                self._parts.clear()
                return [envelope]
        envelope = unpack_envelope(self._buffer)
        if envelope is None:
            return None
        del self._buffer[:HEADER_SIZE + len(envelope.body)]
        return [envelope]

    @staticmethod
    def _split(payload):
        group, at = [], 0
        while at < len(payload):
            envelope = unpack_envelope(memoryview(payload)[at:])
            if envelope is None:
                raise WireError('a segment ends inside an envelope')
            group.append(envelope)
            at += HEADER_SIZE + len(envelope.body)
        return group


def encode(group, framed, lz4=False):
    """The pieces to send: segments when framed, else envelopes. What fits shares a segment."""
    if not framed:
        return [envelope.pack() for envelope in group]
    pieces, shared = [], b''
    for packed in (envelope.pack() for envelope in group):
        if len(shared) + len(packed) <= PAYLOAD_MAX:
            shared += packed
            continue
        if shared:
            pieces.append(pack_segment(shared, True, lz4))
        shared = b''
        if len(packed) <= PAYLOAD_MAX:
            shared = packed
            continue
        for at in range(0, len(packed), PAYLOAD_MAX):
            pieces.append(pack_segment(packed[at:at + PAYLOAD_MAX], False, lz4))
    if shared:
        pieces.append(pack_segment(shared, True, lz4))
    return pieces


# ---- the parts of messages


class Reader:
    """Reads a body from its beginning; WireError where it ends too early."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise WireError('a message ends too early')
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def byte(self):
        return self.take(1)[0]

    def short(self):
        return int.from_bytes(self.take(2), 'big')

    def int(self):
        return int.from_bytes(self.take(4), 'big', signed=True)

    def long(self):
        return int.from_bytes(self.take(8), 'big', signed=True)

    def string(self):
        return self.take(self.short()).decode()

    def long_string(self):
        return self.take(self.int()).decode()

    def short_bytes(self):
        return self.take(self.short())

    def bytes(self):
        """None: null, or not set."""
        length = self.int()
        return None if length < 0 else self.take(length)

    def string_list(self):
        return [self.string() for _ in range(self.short())]

    def string_map(self):
        return {self.string(): self.string() for _ in range(self.short())}

    def string_multimap(self):
        return {self.string(): self.string_list() for _ in range(self.short())}

    def type(self):
        """(option, bytes it took)."""
        begin, option = self.at, self.short()
        if option == CUSTOM:
            self.string()
        elif option in (LIST, SET):
            self.type()
        elif option == MAP:
            self.type()
            self.type()
        elif option == UDT:
            self.string()
            self.string()
            for _ in range(self.short()):
                self.string()
                self.type()
        elif option == TUPLE:
            for _ in range(self.short()):
                self.type()
        return option, self.data[begin:self.at]

    def rest(self):
        return self.take(len(self.data) - self.at)


def short(value):
    return struct.pack('>H', value)


def integer(value):
    return struct.pack('>i', value)


def string(text):
    text = text.encode()
    return short(len(text)) + text


def long_string(text):
    text = text.encode()
    return integer(len(text)) + text


def short_bytes(data):
    return short(len(data)) + data


def value(data):
    """[value]; None: null."""
    return integer(-1) if data is None else integer(len(data)) + data


def string_map(items):
    return short(len(items)) + b''.join(string(name) + string(text) for name, text in items.items())


def string_multimap(items):
    return short(len(items)) + b''.join(
        string(name) + short(len(texts)) + b''.join(map(string, texts))
        for name, texts in items.items())


class Column:
    __slots__ = ('keyspace', 'table', 'name', 'option', 'type')

    def __init__(self, keyspace, table, name, option, packed_type):
        self.keyspace, self.table, self.name = keyspace, table, name
        self.option, self.type = option, packed_type


class Metadata:
    """Of rows: columns, the flags as sent, and what else it has."""

    def __init__(self, reader):
        self.flags, self.count = reader.int(), reader.int()
        self.paging = reader.bytes() if self.flags & HAS_MORE else None
        self.new_id = reader.short_bytes() if self.flags & METADATA_CHANGED else None
        self.columns = None
        if not self.flags & NO_METADATA:
            self.columns = _columns(reader, self.flags, self.count)

    def pack(self, columns):
        """As it was, with these columns."""
        out = [integer(self.flags), integer(len(columns))]
        if self.flags & HAS_MORE:
            out.append(value(self.paging))
        if self.flags & METADATA_CHANGED:
            out.append(short_bytes(self.new_id))
        if not self.flags & NO_METADATA:
            if self.flags & GLOBAL_TABLE and self.columns:
                out.append(string(self.columns[0].keyspace) + string(self.columns[0].table))
            for column in columns:
                if not self.flags & GLOBAL_TABLE:
                    out.append(string(column.keyspace) + string(column.table))
                out.append(string(column.name) + column.type)
        return b''.join(out)


def _columns(reader, flags, count):
    shared = (reader.string(), reader.string()) if flags & GLOBAL_TABLE and count else None
    columns = []
    for _ in range(count):
        keyspace, table = shared or (reader.string(), reader.string())
        name = reader.string()
        columns.append(Column(keyspace, table, name, *reader.type()))
    return columns


class Prepared:
    """RESULT of kind PREPARED, behind its kind."""

    def __init__(self, reader, version):
        self.id = reader.short_bytes()
        self.result_id = reader.short_bytes() if version >= V5 else None
        begin = reader.at
        flags, count = reader.int(), reader.int()
        for _ in range(reader.int()):
            reader.short()
        self.bound = _columns(reader, flags, count)
        self.before = reader.data[begin:reader.at]      # the metadata of what is bound, as sent
        self.metadata = Metadata(reader)

    def pack(self, columns):
        return (short_bytes(self.id) +
                (b'' if self.result_id is None else short_bytes(self.result_id)) + self.before +
                self.metadata.pack(columns))


def behind_extras(envelope):
    """(what is flagged before the message, the message) of an answer."""
    reader = Reader(envelope.body)
    if envelope.flags & TRACING:
        reader.take(16)
    if envelope.flags & WARNING:
        reader.string_list()
    if envelope.flags & PAYLOAD:
        for _ in range(reader.short()):
            reader.string()
            reader.bytes()
    return envelope.body[:reader.at], envelope.body[reader.at:]


def batch_statements(body):
    """[(kind, text or id)] of BATCH: kind 0 is a text, 1 an id."""
    reader = Reader(body)
    reader.byte()
    found = []
    for _ in range(reader.short()):
        kind = reader.byte()
        found.append((kind, reader.long_string() if kind == 0 else reader.short_bytes()))
        for _ in range(reader.short()):
            reader.bytes()
    return found


WRITE_TYPES = ('SIMPLE', 'BATCH', 'UNLOGGED_BATCH', 'COUNTER', 'BATCH_LOG', 'CAS', 'VIEW', 'CDC')


def error_body(name, message, version, **fields):
    """The body of ERROR. fields, each with a default: consistency, received, block_for, required,
    alive, write_type, data_present, failures, contentions, id, keyspace, table."""
    code = ERRORS[name]

    def number(field, default):
        return integer(int(fields.get(field, default)))

    body = integer(code) + string(message)
    level = short(CONSISTENCY[fields.get('consistency', 'LOCAL_QUORUM')])
    failures = number('failures', 1)
    if version >= V5:       # address and reason of each
        numbers = range(1, int(fields.get('failures', 1)) + 1)
        failures += b''.join(bytes([4, 127, 0, 0, n]) + short(0) for n in numbers)
    write_type = fields.get('write_type', 'SIMPLE')
    if name == 'UNAVAILABLE':
        body += level + number('required', 2) + number('alive', 1)
    elif name in ('WRITE_TIMEOUT', 'WRITE_FAILURE'):
        body += level + number('received', 1) + number('block_for', 2)
        body += (failures if name == 'WRITE_FAILURE' else b'') + string(write_type)
        if name == 'WRITE_TIMEOUT' and version >= V5 and write_type == 'CAS':
            body += short(int(fields.get('contentions', 1)))
    elif name in ('READ_TIMEOUT', 'READ_FAILURE'):
        body += level + number('received', 1) + number('block_for', 2)
        body += failures if name == 'READ_FAILURE' else b''
        body += bytes([bool(fields.get('data_present', False))])
    elif name == 'CAS_WRITE_UNKNOWN':
        body += level + number('received', 1) + number('block_for', 2)
    elif name == 'FUNCTION_FAILURE':
        body += string(fields.get('keyspace', '')) + string(fields.get('function', '')) + short(0)
    elif name == 'ALREADY_EXISTS':
        body += string(fields.get('keyspace', '')) + string(fields.get('table', ''))
    elif name == 'UNPREPARED':
        body += short_bytes(fields.get('id', b''))
    return body

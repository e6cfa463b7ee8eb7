"""A small client of CQL: one connection, one request at a time, statements as text. It stands on
nothing but Python, and serves to wait for a cluster, to make tables, and to look at rows; it is no
driver.

    with Session('127.0.0.1', 9042) as session:
        for row in session.execute('SELECT host_id, rack FROM system.local'):
            print(row['rack'])
"""
import datetime
import ipaddress
import socket
import struct
import time
import uuid

import wire

TIMEOUT = 60
AGREE_TIMEOUT = 90
DDL = ('CREATE', 'ALTER', 'DROP')
USER = PASSWORD = 'cassandra'


class CqlError(Exception):
    """What a node refused: name is one of wire.ERRORS."""

    def __init__(self, name, message):
        super().__init__(f'{name}: {message}')
        self.name = name


def _inet(data):
    return str(ipaddress.ip_address(data))


SCALARS = {
    0x01: bytes.decode,
    0x02: lambda d: int.from_bytes(d, 'big', signed=True),
    0x03: bytes,
    0x04: lambda d: d != b'\0',
    0x05: lambda d: int.from_bytes(d, 'big', signed=True),
    0x07: lambda d: struct.unpack('>d', d)[0],
    0x08: lambda d: struct.unpack('>f', d)[0],
    0x09: lambda d: int.from_bytes(d, 'big', signed=True),
    0x0b: lambda d: datetime.datetime.fromtimestamp(
        int.from_bytes(d, 'big', signed=True) / 1000, datetime.timezone.utc),
    0x0c: lambda d: uuid.UUID(bytes=d),
    0x0d: bytes.decode,
    0x0e: lambda d: int.from_bytes(d, 'big', signed=True),
    0x0f: lambda d: uuid.UUID(bytes=d),
    0x10: _inet,
    0x13: lambda d: int.from_bytes(d, 'big', signed=True),
    0x14: lambda d: int.from_bytes(d, 'big', signed=True),
}


def decode(packed_type, data):
    """A value as Python has it; of types that are not known here the bytes."""
    if data is None:
        return None
    reader = wire.Reader(packed_type)
    option = reader.short()
    if option in (wire.LIST, wire.SET, wire.MAP):
        first = reader.type()[1]
        second = reader.type()[1] if option == wire.MAP else None
        items = wire.Reader(data)
        if option == wire.MAP:
            return {
                decode(first, items.bytes()): decode(second, items.bytes())
                for _ in range(items.int())
            }
        return [decode(first, items.bytes()) for _ in range(items.int())]
    return SCALARS.get(option, bytes)(data)


class Session:
    """Logs in when the node asks for it. tls: an ssl.SSLContext. version: 4 or 5."""

    def __init__(self, host, port, timeout=TIMEOUT, tls=None, user=USER, password=PASSWORD,
                 version=wire.V4):
        self.version = version
        self._decoder = wire.Decoder()
        self._waiting = []
        self._socket = socket.create_connection((host, port), timeout)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            answer = self.ask('STARTUP', wire.string_map({'CQL_VERSION': '3.0.0'}))
            self._decoder.framed = version >= wire.V5
            if answer.name == 'AUTHENTICATE':
                self.ask('AUTH_RESPONSE', wire.value(f'\0{user}\0{password}'.encode()))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def close(self):
        self._socket.close()

    def ask(self, name, body):
        """The answer to one request. Raises CqlError where that is an ERROR, OSError where none
        comes."""
        request = wire.Envelope(self.version, 0, 1, wire.OPCODE[name], body)
        self._socket.sendall(b''.join(wire.encode([request], self._decoder.framed)))
        while True:
            while not self._waiting:
                group = self._decoder.next()
                if group is not None:
                    self._waiting = group
                    break
                data = self._socket.recv(1 << 18)
                if not data:
                    raise ConnectionError('the node closed the connection')
                self._decoder.feed(data)
            answer = self._waiting.pop(0)
            if answer.stream != wire.EVENT_STREAM:
                break
        if answer.name == 'ERROR':
            reader = wire.Reader(wire.behind_extras(answer)[1])
            code = reader.int()
            raise CqlError(wire.ERROR_NAMES.get(code, hex(code)), reader.string())
        return answer

    def execute(self, text, consistency='LOCAL_ONE'):
        """Rows as dicts; [] of what gives none. Behind DDL all nodes have the same schema."""
        rows, paging = [], None
        while True:
            flags = 0x04 | (0x08 if paging else 0)
            packed = struct.pack('>B' if self.version < wire.V5 else '>i', flags)
            body = (wire.long_string(text) + wire.short(wire.CONSISTENCY[consistency]) + packed +
                    wire.integer(5000) + (wire.value(paging) if paging else b''))
            reader = wire.Reader(wire.behind_extras(self.ask('QUERY', body))[1])
            if reader.int() != wire.ROWS:
                break
            metadata = wire.Metadata(reader)
            for _ in range(reader.int()):
                rows.append({
                    column.name: decode(column.type, reader.bytes()) for column in metadata.columns
                })
            paging = metadata.paging
            if not paging:
                break
        if text.split(None, 1)[0].upper() in DDL:
            self.agree()
        return rows

    def agree(self):
        """Returns when all nodes have the same schema."""
        until = time.monotonic() + AGREE_TIMEOUT
        while True:
            rows = [row for table in ('local', 'peers')
                    for row in self.execute(f'SELECT schema_version FROM system.{table}')]
            if len({row['schema_version'] for row in rows}) == 1:
                return
            if time.monotonic() > until:
                raise TimeoutError(f'no agreement about the schema: {rows}')
            time.sleep(0.05)


def answers(host, port, timeout=5):
    """Whether a node answers OPTIONS with SUPPORTED there."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(wire.Envelope(wire.V4, 0, 0, wire.OPCODE['OPTIONS'], b'').pack())
            head = connection.recv(wire.HEADER_SIZE)
            return len(head) > 4 and head[4] == wire.OPCODE['SUPPORTED']
    except OSError:
        return False

#!/usr/bin/python3
"""What another client makes of the protocol: golden bytes for the tests beside this file.

python3-cassandra (Debian; 3.25) encodes requests and values, and reads answers that are built here.
golden.txt holds what it said, a line each:
  request NAME ENVELOPE          the bytes of a request
  value NAME BYTES               the bytes of a bound value, without their length
  answer NAME ENVELOPE TEXT      an answer, and how it is read
test_cql_golden_*.c hold this client's code against that file, which is why no test needs the package.

  oracle.py --write FILE    makes the file anew
  oracle.py --check FILE    the file is what would be written; exit 77: there is no python3-cassandra,
                            or one of another version
  oracle.py --seeds DIR     writes the answers as seeds of fuzz_cql_answer
"""
import os
import struct
import sys
import uuid

try:
    import cassandra
    from cassandra import cqltypes, protocol, util
    from cassandra.query import BatchType
except ImportError:
    print('no python3-cassandra here')
    sys.exit(77)

STREAM = 258
TEXT = 'SELECT v FROM ks.t WHERE k = ?'
ID = bytes(range(16))
COLUMNS_ID = bytes(range(16, 32))
VALUES = [b'key', None, protocol._UNSET_VALUE, b'']
TIMESTAMP = 1700000000123456
STATE = b'\x00\x01state'
ONE, QUORUM, LOCAL_QUORUM, SERIAL, LOCAL_SERIAL = 1, 4, 6, 8, 9


# ---- requests ----

def query(**options):
    return protocol.QueryMessage(TEXT, **{'consistency_level': LOCAL_QUORUM, **options})


def execute(values=None, **options):
    return protocol.ExecuteMessage(ID, values, **{'consistency_level': LOCAL_QUORUM,
                                                  'result_metadata_id': COLUMNS_ID, **options})


def batch(kind, statements, **options):
    return protocol.BatchMessage(kind, statements, LOCAL_QUORUM, **options)


def requests(version):
    yield 'options', protocol.OptionsMessage()
    yield 'startup', protocol.StartupMessage('3.0.0', {'COMPRESSION': 'lz4', 'DRIVER_NAME': 'x'})
    yield 'register', protocol.RegisterMessage(['TOPOLOGY_CHANGE', 'STATUS_CHANGE',
                                                'SCHEMA_CHANGE'])
    yield 'auth', protocol.AuthResponseMessage('\0user\0secret')
    yield 'prepare', protocol.PrepareMessage(TEXT)
    yield 'query', query()
    yield 'query_one', query(consistency_level=ONE)
    yield 'query_page', query(fetch_size=5000)
    yield 'query_state', query(fetch_size=100, paging_state=STATE)
    yield 'query_serial', query(serial_consistency_level=LOCAL_SERIAL)
    yield 'query_timestamp', query(timestamp=TIMESTAMP)
    yield 'query_all', query(fetch_size=7, paging_state=STATE, serial_consistency_level=SERIAL,
                             timestamp=TIMESTAMP)
    yield 'execute', execute()
    yield 'execute_values', execute(VALUES)
    yield 'execute_page', execute(VALUES, fetch_size=5000)
    yield 'execute_timestamp', execute(VALUES, timestamp=TIMESTAMP)
    yield 'execute_all', execute(VALUES, fetch_size=7, paging_state=STATE,
                                 serial_consistency_level=LOCAL_SERIAL, timestamp=TIMESTAMP)
    yield 'batch_empty', batch(BatchType.LOGGED, [])
    yield 'batch', batch(BatchType.UNLOGGED, [(True, ID, VALUES), (False, TEXT, [b'k']),
                                              (False, TEXT, [])])
    yield 'batch_counter', batch(BatchType.COUNTER, [(True, ID, [])])
    yield 'batch_timestamp', batch(BatchType.UNLOGGED, [(True, ID, VALUES)], timestamp=TIMESTAMP)
    yield 'batch_all', batch(BatchType.LOGGED, [(True, ID, VALUES)], timestamp=TIMESTAMP,
                             serial_consistency_level=SERIAL)
    if version >= 5:
        yield 'prepare_keyspace', protocol.PrepareMessage(TEXT, keyspace='ks')
        yield 'query_keyspace', query(keyspace='ks')
        yield 'query_keyspace_all', query(fetch_size=7, paging_state=STATE, keyspace='ks',
                                          serial_consistency_level=SERIAL, timestamp=TIMESTAMP)
        yield 'batch_keyspace', batch(BatchType.LOGGED, [(True, ID, VALUES)], timestamp=TIMESTAMP,
                                      serial_consistency_level=SERIAL, keyspace='ks')


# ---- values ----

def of(kind, *types):
    return kind.apply_parameters(types)


def values():
    long, text, integer = cqltypes.LongType, cqltypes.UTF8Type, cqltypes.Int32Type
    time = uuid.UUID('13814000-1dd2-11b2-8001-020304050607')
    many = uuid.UUID('00112233-4455-6677-8899-aabbccddeeff')
    yield 'bigint', long, 0x0102030405060708
    yield 'bigint_least', long, -2 ** 63
    yield 'counter', cqltypes.CounterColumnType, -1
    yield 'int', integer, -2
    yield 'int_most', integer, 2 ** 31 - 1
    yield 'smallint', cqltypes.ShortType, -300
    yield 'tinyint', cqltypes.ByteType, -128
    yield 'boolean_true', cqltypes.BooleanType, True
    yield 'boolean_false', cqltypes.BooleanType, False
    yield 'double', cqltypes.DoubleType, -0.1
    yield 'timestamp', cqltypes.DateType, -62135596800000
    yield 'time', cqltypes.TimeType, util.Time(86399999999999)
    yield 'date', cqltypes.SimpleDateType, util.Date(-719162)
    yield 'date_1970', cqltypes.SimpleDateType, util.Date(0)
    yield 'uuid', cqltypes.UUIDType, many
    yield 'timeuuid', cqltypes.TimeUUIDType, time
    yield 'text', text, 'a\u00e9\U0001f600'
    yield 'text_empty', text, ''
    yield 'ascii', cqltypes.AsciiType, 'plain'
    yield 'blob', cqltypes.BytesType, b'\0\xff\x80'
    yield 'list', of(cqltypes.ListType, integer), [1, 2, 3]
    yield 'list_empty', of(cqltypes.ListType, integer), []
    yield 'set', of(cqltypes.SetType, text), ['b']
    yield 'map', of(cqltypes.MapType, text, long), util.OrderedMap([('k', 1), ('l', -1)])
    yield 'nested', of(cqltypes.MapType, text, of(cqltypes.ListType, of(cqltypes.SetType, integer))), \
        util.OrderedMap([('k', [[1], []]), ('l', [])])
    yield 'tuple', of(cqltypes.TupleType, integer, text, long), (7, None, 9)
    yield 'list_of_tuples', of(cqltypes.ListType, of(cqltypes.TupleType, integer, text)), \
        [(1, 'a'), (2, 'b')]


# ---- answers: built here, read by the other client ----

def string(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack('>H', len(s)) + s


def strings(*all):
    return struct.pack('>H', len(all)) + b''.join(map(string, all))


def cell(b):
    return struct.pack('>i', -1) if b is None else struct.pack('>i', len(b)) + b


def envelope(version, opcode, body, flags=0, stream=STREAM):
    return struct.pack('>BBhBi', 0x80 | version, flags, stream, opcode, len(body)) + body


TYPES = [b'\0\x0d', b'\0\x02', b'\0\x20\0\x09', b'\0\x21\0\x0d\0\x22\0\x0c',
         b'\0\x31\0\2\0\x09\0\x0d', b'\0\x30' + string('ks') + string('addr') + b'\0\2' +
         string('street') + b'\0\x0d' + string('no') + b'\0\x09', b'\0\x13', b'\0\x0f']
NAMES = ['k', 'n', 'list', 'map', 'pair', 'home', 'small', 'tid']
ROWS = [[b'a', struct.pack('>q', 5), struct.pack('>i', 1) + cell(b'\0\0\0\x07'),
         struct.pack('>i', 1) + cell(b'x') + cell(struct.pack('>i', 1) + cell(bytes(16))),
         cell(b'\0\0\0\1') + cell(b'y'), cell(b'road') + cell(None), b'\1\2', bytes(16)],
        [b'', None, None, None, None, None, None, None]]


def columns(count, all_apart=False):
    """The specs, behind flags and whatever else stands before them."""
    out = b'' if all_apart else string('ks') + string('t')
    for name, kind in list(zip(NAMES, TYPES))[:count]:
        out += (string('ks') + string('t_' + name) if all_apart else b'') + string(name) + kind
    return out


def rows(count, cells, flags=1, state=b'', changed=b''):
    kind = struct.pack('>iii', 2, flags, count) + state + changed
    if not flags & 4:
        kind += columns(count, not flags & 1)
    return kind + struct.pack('>i', len(cells)) + b''.join(
        b''.join(cell(c) for c in row[:count]) for row in cells)


def prepared(version, markers, key, result, flags=1):
    body = struct.pack('>i', 4) + string(ID)
    if version >= 5:
        body += string(COLUMNS_ID)
    body += struct.pack('>iii', flags, markers, len(key))
    body += b''.join(struct.pack('>H', k) for k in key)
    if markers or flags & 1:
        body += columns(markers, not flags & 1)
    if result is None:
        return body + struct.pack('>ii', 4, 0)
    return body + struct.pack('>ii', 1, result) + columns(result)


def error(code, message, fields=b''):
    return struct.pack('>i', code) + string(message) + fields


def failed(version):
    if version < 5:
        return struct.pack('>i', 2)
    return struct.pack('>i', 2) + b'\x04\x7f\0\0\1\0\1' + b'\x10' + bytes(15) + b'\1\0\0'


def errors(version):
    replicas = struct.pack('>Hii', LOCAL_QUORUM, 1, 2)
    yield error(0x0000, 'server')
    yield error(0x000A, 'protocol')
    yield error(0x0100, 'credentials')
    yield error(0x1000, 'unavailable', struct.pack('>Hii', QUORUM, 2, 1))
    yield error(0x1001, 'overloaded')
    yield error(0x1002, 'bootstrapping')
    yield error(0x1003, 'truncate')
    for kind in ['SIMPLE', 'BATCH', 'UNLOGGED_BATCH', 'COUNTER', 'BATCH_LOG', 'CAS', 'VIEW', 'CDC']:
        tail = b'\0\3' if version >= 5 and kind == 'CAS' else b''
        yield error(0x1100, 'write timeout', replicas + string(kind) + tail)
    yield error(0x1200, 'read timeout', replicas + b'\0')
    yield error(0x1200, 'read timeout', replicas + b'\1')
    yield error(0x1300, 'read failure', replicas + failed(version) + b'\1')
    yield error(0x1400, 'function', string('ks') + string('fn') + strings('int', 'text'))
    yield error(0x1500, 'write failure', replicas + failed(version) + string('SIMPLE'))
    yield error(0x1600, 'cdc')
    yield error(0x1700, 'cas unknown', replicas)
    yield error(0x2000, 'syntax')
    yield error(0x2100, 'unauthorized')
    yield error(0x2200, 'invalid')
    yield error(0x2300, 'config')
    yield error(0x2400, 'exists', string('ks') + string('t'))
    yield error(0x2400, 'exists', string('ks') + string(''))
    yield error(0x2500, 'unprepared', string(ID))
    yield error(0x3000, 'of a later version')


def schema_changes():
    yield string('CREATED') + string('KEYSPACE') + string('ks')
    yield string('UPDATED') + string('TABLE') + string('ks') + string('t')
    yield string('DROPPED') + string('TYPE') + string('ks') + string('u')
    yield string('CREATED') + string('FUNCTION') + string('ks') + string('f') + strings('int')
    yield string('CREATED') + string('AGGREGATE') + string('ks') + string('g') + strings()


def answers(version):
    result = lambda body, flags=0: envelope(version, 8, body, flags)
    yield 'ready', envelope(version, 2, b'')
    yield 'ready_more', envelope(version, 2, b'what a later version says')
    yield 'authenticate', envelope(version, 3, string('org.apache.cassandra.auth.Password'))
    yield 'supported', envelope(version, 6, struct.pack('>H', 3) +
                                string('COMPRESSION') + strings('lz4', 'snappy') +
                                string('CQL_VERSION') + strings('3.4.7') +
                                string('PROTOCOL_VERSIONS') + strings('4/v4', '5/v5'))
    yield 'challenge', envelope(version, 0x0e, cell(b'more'))
    yield 'success', envelope(version, 0x10, cell(b'fine'))
    for n, body in enumerate(errors(version)):
        yield 'error_%d' % n, envelope(version, 0, body)
    yield 'void', result(struct.pack('>i', 1))
    yield 'keyspace', result(struct.pack('>i', 3) + string('ks'))
    for n, body in enumerate(schema_changes()):
        yield 'schema_%d' % n, result(struct.pack('>i', 5) + body)
        yield 'event_schema_%d' % n, envelope(version, 12, string('SCHEMA_CHANGE') + body, 0, -1)
    four = b'\x04\x0a\0\0\1' + struct.pack('>i', 9042)
    six = b'\x10\x20\1\x0d\xb8' + bytes(11) + b'\1' + struct.pack('>i', 65535)
    for kind, change, where in [('STATUS_CHANGE', 'UP', four), ('STATUS_CHANGE', 'DOWN', six),
                                ('TOPOLOGY_CHANGE', 'NEW_NODE', six),
                                ('TOPOLOGY_CHANGE', 'REMOVED_NODE', four)]:
        yield 'event_' + change.lower(), envelope(version, 12, string(kind) + string(change) + where,
                                                  0, -1)
    yield 'rows', result(rows(8, ROWS))
    yield 'rows_apart', result(rows(8, ROWS, 0))
    yield 'rows_none', result(rows(3, []))
    yield 'rows_page', result(rows(2, ROWS, 1 | 2, cell(STATE)))
    yield 'rows_page_empty', result(rows(2, [], 1 | 2, cell(STATE)))
    yield 'rows_bare', result(rows(2, ROWS, 4))
    yield 'rows_bare_page', result(rows(2, ROWS, 4 | 2, cell(STATE)))
    yield 'prepared', result(prepared(version, 3, [2, 0], 8))
    yield 'prepared_apart', result(prepared(version, 3, [1], 2, 0))
    yield 'prepared_no_key', result(prepared(version, 1, [], 1))
    yield 'prepared_write', result(prepared(version, 4, [0], None))
    yield 'prepared_plain', result(prepared(version, 0, [], None, 0))
    if version >= 5:
        yield 'rows_changed', result(rows(2, ROWS, 1 | 8, b'', string(COLUMNS_ID)))
        yield 'rows_changed_page', result(rows(2, ROWS, 1 | 2 | 8, cell(STATE), string(COLUMNS_ID)))
    trace, warnings = bytes(range(16)), strings('careful', '')
    payload = struct.pack('>H', 2) + string('a') + cell(b'\1\2') + string('b') + cell(b'')
    for flags in range(2, 16, 2):
        before = (trace if flags & 2 else b'') + (warnings if flags & 8 else b'') + \
            (payload if flags & 4 else b'')
        yield 'before_%d' % flags, result(before + struct.pack('>i', 1), flags)


class Raw(protocol.ResultMessage):
    """Their reading of metadata and cells, without their reading of values."""
    result_metadata_id = None

    def recv_results_rows(self, f, version, user_types, metadata):
        self.recv_results_metadata(f, user_types)
        known = self.column_metadata or metadata
        self.raw = [self.recv_row(f, len(known)) for _ in range(protocol.read_int(f))]


class Handler(protocol._ProtocolHandler):
    message_types_by_opcode = {**protocol._ProtocolHandler.message_types_by_opcode, 8: Raw}


def type_text(t):
    if t.typename == 'varchar':
        return 'text'
    if issubclass(t, cqltypes.UserType):
        return t.typename
    inner = ', '.join(map(type_text, t.subtypes))
    return t.typename + ('<%s>' % inner if t.subtypes else '')


def columns_text(all):
    return '[%s]' % ', '.join('%s.%s.%s %s' % (k, t, n, type_text(c)) for k, t, n, c in all)


def hexed(b):
    return 'null' if b is None else b.hex()


def error_text(m, version):
    out = 'error %04x "%s"' % (m.code, m.message)
    info = m.info
    if isinstance(info, bytes):
        return out + ' id=' + info.hex()
    for key, word in [('consistency', 'cl'), ('required_replicas', 'required'),
                      ('required_responses', 'required'), ('alive_replicas', 'got'),
                      ('received_responses', 'got'), ('failures', 'failed'),
                      ('data_retrieved', 'data'), ('write_type', 'write'), ('keyspace', 'ks'),
                      ('table', 'name'), ('function', 'name')]:
        if info and key in info:
            out += ' %s=%s' % (word, int(info[key]) if word in ('data', 'cl', 'write')
                               else info[key])
    return out


def schema_text(e):
    names = [e[k] for k in ('table', 'type') if k in e] + \
            [e[k].name for k in ('function', 'aggregate') if k in e]
    return '%s %s %s.%s' % (e['change_type'], e['target_type'], e['keyspace'], ''.join(names))


def result_text(m):
    if m.kind == 1:
        return 'void'
    if m.kind == 3:
        return 'keyspace ' + m.new_keyspace
    if m.kind == 5:
        return 'schema ' + schema_text(m.schema_change_event)
    if m.kind == 4:
        return 'prepared %s %s markers %s key [%s] columns %s' % (
            m.query_id.hex(), hexed(m.result_metadata_id),
            columns_text(m.bind_metadata), ', '.join(map(str, m.pk_indexes)),
            columns_text(m.column_metadata or []))
    return 'rows %s %s %s%s' % (
        hexed(m.paging_state), hexed(m.result_metadata_id), columns_text(m.column_metadata or []),
        ''.join(' (%s)' % ', '.join(map(hexed, row)) for row in m.raw))


def event_text(m):
    if m.event_type == 'SCHEMA_CHANGE':
        return 'event ' + schema_text(m.event_args)
    return 'event %s %s %s %d' % ((m.event_type, m.event_args['change_type']) +
                                  m.event_args['address'])


def text_of(version, bytes_):
    flags, opcode, body = bytes_[1], bytes_[4], bytes_[9:]
    metadata = [('ks', 't', n, None) for n in NAMES[:2]]
    m = Handler.decode_message(version, {}, STREAM, flags, opcode, body, None, metadata)
    out = 'trace=%s ' % m.trace_id.hex if m.trace_id else ''
    out += ''.join('warning="%s" ' % w for w in m.warnings or [])
    out += ''.join('payload %s=%s ' % (k, v.hex()) for k, v in (m.custom_payload or {}).items())
    if opcode == 0:
        return out + error_text(m, version)
    if opcode == 3:
        return out + 'authenticate ' + m.authenticator
    if opcode == 6:
        options = sorted([*m.options.items(), ('CQL_VERSION', m.cql_versions)])
        return out + 'supported' + ''.join(' %s=%s' % (k, '|'.join(v)) for k, v in options)
    if opcode == 8:
        return out + result_text(m)
    if opcode == 12:
        return out + event_text(m)
    if opcode == 14:
        return out + 'challenge ' + m.challenge.hex()
    if opcode == 16:
        return out + 'success ' + m.token.encode().hex()
    return out + m.name.lower()


def lines():
    for version in (4, 5):
        for name, message in requests(version):
            bytes_ = protocol.ProtocolHandler.encode_message(message, STREAM, version, None, False)
            yield 'request %s_v%d %s' % (name, version, bytes_.hex())
    for name, kind, value in values():
        yield 'value %s %s' % (name, kind.serialize(value, 5).hex())
    for version in (4, 5):
        for name, bytes_ in answers(version):
            yield 'answer %s_v%d %s %s' % (name, version, bytes_.hex(), text_of(version, bytes_))


def main(verb, path):
    import logging
    logging.disable(logging.CRITICAL)
    if verb == '--seeds':
        os.makedirs(path, exist_ok=True)
        for version in (4, 5):
            for name, bytes_ in answers(version):
                with open(os.path.join(path, '%s_v%d' % (name, version)), 'wb') as f:
                    f.write(bytes_)
        return 0
    text = '# Made by oracle.py --write.\n' + ''.join(line + '\n' for line in lines())
    if verb == '--write':
        with open(path, 'w') as f:
            f.write(text)
        return 0
    if not cassandra.__version__.startswith('3.25.'):
        print('golden.txt is of python3-cassandra 3.25, here is %s' % cassandra.__version__)
        return 77
    with open(path) as f:
        if f.read() == text:
            return 0
    print('%s is not what the other client says' % path)
    return 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))

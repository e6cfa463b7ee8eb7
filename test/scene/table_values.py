"""Values of tables: of each type which are the same one, how they order, and how an answer writes them (docs/api.md 4).

A value stands for itself as a Python value that compares as the server's must (its key: Fraction, int, bytes, ...), and
in a request in any of its notations. Null and the empty set are None; a set is the tuple of its keys in order.
"""
import base64
import calendar
import json
import struct
import time
import uuid
from fractions import Fraction

from page_help import EPOCH_TICKS

START_TICKS = EPOCH_TICKS + 1767225600 * 10**7      # page_help.START
TICKS_PER_HOUR = 3600 * 10**7


def single(number):
    """As a float holds it."""
    return struct.unpack('f', struct.pack('f', number))[0]


def _blob(data):
    return {'base64': base64.b64encode(data).decode()}


def json_key(value, sort=True):
    """Its text: the order of members makes no other value."""
    return json.dumps(value, separators=(',', ':'), ensure_ascii=False, sort_keys=sort).encode()


def timeuuid(ticks, low):
    """(notation, key) of a version-1 UUID: time first, then its last eight bytes."""
    text = f'{ticks & 0xffffffff:08x}-{ticks >> 32 & 0xffff:04x}-1{ticks >> 48:03x}-{low:016x}'
    return f'{text[:23]}-{text[23:]}', (ticks, low)


def _timeuuids():
    """Some half hours apart, some of one instant, and two of the first days that a UUID can name."""
    made = [timeuuid(START_TICKS + halves * TICKS_PER_HOUR // 2 + halves % 2, low)
            for halves in (-7, -5, -3, 0, 1, 2, 3, 36, 47)
            for low in (0x8000000000000001, 0xbfffffffffffffff)[:1 + halves % 2]]
    made += [timeuuid(days * 12 * TICKS_PER_HOUR, 0x9234000000000001) for days in (2, 13)]
    return [([text, text.upper()], key) for text, key in made]


# type -> (notations, key) of each value
SAMPLES = {
    'blob': [(['a', _blob(b'a')], b'a'), ([_blob(b'')], b''), ([_blob(b'\0')], b'\0'), ([_blob(b'\0\xff')], b'\0\xff'),
             ([_blob(b'\0\1')], b'\0\1'), ([_blob(b'\xff')], b'\xff'), ([_blob(b'\xff\xfe')], b'\xff\xfe'), (['ab'], b'ab')],
    'boolean': [([True], 1), ([False], 0)],
    'decimal': [(['1.5', '1.50', 1.5, '15E-1', '+001.500'], Fraction(3, 2)), (['0', '-0', '0.00', '0E+3', 0], Fraction(0)),
                (['-1.5', '-1.50'], Fraction(-3, 2)), (['15', 15, '15.0', '1.5e1'], Fraction(15)), (['-15'], Fraction(-15)),
                (['1e-10'], Fraction(1, 10**10)), (['-1e-10', '-0.0000000001'], Fraction(-1, 10**10)),
                (['1e30', '1' + '0' * 30], Fraction(10**30)), (['1.51'], Fraction(151, 100)),
                (['1.505'], Fraction(1505, 1000)), (['-1.51'], Fraction(-151, 100)), (['-1.505'], Fraction(-1505, 1000))],
    'double': [([0, -0.0, 0.0], 0.0), ([1, 1.0], 1.0), ([-1], -1.0), ([0.1], 0.1), ([1e300], 1e300), ([-1e300], -1e300),
               ([5e-324], 5e-324), ([-5e-324], -5e-324)],
    'float': [([0, -0.0, 1e-60], 0.0), ([1, 1.0], 1.0), ([-1], -1.0), ([0.1, single(0.1)], single(0.1)),
              ([16777217, 16777216], 16777216.0), ([-2.5], -2.5)],
    'int': [([number], number) for number in (0, 1, -1, 2**31 - 1, -2**31, 255, 256, -256)],
    'json': [(values, json_key(values[0])) for values in (
        [{'b': 0, 'a': 1}, {'a': 1, 'b': 0}], [[]], ['x'], [0], [{}], [{'eq': 2}], [{'b': [1, None, True]}], ['\u00e9'],
        [[{'\uffff': 1, '\U0001f600': {'d': 0, 'c': 0}}], [{'\U0001f600': {'c': 0, 'd': 0}, '\uffff': 1}]])],
    'long': [([str(number), number], number) for number in (0, 1, -1, 2**63 - 1, -2**63, 2**53 + 1, -300)],
    'string': [([text], text.encode()) for text in ('', 'a', 'b', 'ab', 'a\0', 'a\0b', 'a\x01', 'e\u0301', '\u00e9',
                                                    '\uffff', '\U0001f600', '\x7f', 'a"\\\n')],
    'timestamp': [(['2014-11-14T19:10:40.912Z', '2014-11-14T20:10:40.912+01:00', '2014-11-14 18:10:40.912-0100',
                    1415992240912], 1415992240912), ([0, '1970-01-01', '1970-01-01T00:00:00Z'], 0),
                  ([-1, '1969-12-31T23:59:59.999Z', '1969-12-31T23:59:59.9999Z'], -1), ([-1000], -1000),
                  ([2**63 - 1], 2**63 - 1), ([-2**63], -2**63), (['2014-11-14T19:10:40Z'], 1415992240000)],
    'timeuuid': _timeuuids(),
    'uuid': [([text.upper(), text], uuid.UUID(text).bytes) for text in (
        'd6938370-c996-4def-96fb-6af7ba9b6f72', '00000000-0000-0000-0000-000000000000',
        'ffffffff-ffff-ffff-ffff-ffffffffffff', '7fffffff-0000-1000-8000-000000000000')],
    'varint': [(['0', '-0', 0], 0), (['1', '+1', '01', 1], 1), (['-1', -1], -1), (['10'], 10), (['11'], 11), (['-10'], -10),
               (['-11'], -11), (['1' + '0' * 30], 10**30), (['-' + '9' * 40], 1 - 10**40), (['100'], 100), (['101'], 101)],
}
TYPES = sorted(SAMPLES)


def _must(condition):
    if not condition:
        raise ValueError


def _read_text_number(value):
    _must(isinstance(value, str) and str(int(value)) == value)
    return int(value)


def _read_number(value):
    _must(type(value) in (int, float) and str(value) != '-0.0')
    return float(value)


def _read_decimal(value):
    _must(isinstance(value, str))
    return Fraction(value)


def _read_exact(kind):
    def read(value):
        _must(type(value) is kind)
        return value
    return read


def _read_blob(value):
    _must(list(value) == ['base64'])
    return base64.b64decode(value['base64'], validate=True)


def _read_uuid(value):
    _must(str(uuid.UUID(value)) == value)
    return uuid.UUID(value).bytes


def _read_timeuuid(value):
    got = uuid.UUID(value)
    _must(str(got) == value and got.version == 1)
    return got.time, got.int & 2**64 - 1


def _read_timestamp(value):
    if type(value) is int:                  # of a year that no date has
        return value
    _must(value[19] == '.' and value[23:] == 'Z')
    return calendar.timegm(time.strptime(value[:19], '%Y-%m-%dT%H:%M:%S')) * 1000 + int(value[20:23])


def _read_json(value):
    _must(json_key(value) == json_key(value, sort=False))
    return json_key(value)


_READERS = {
    'blob': _read_blob, 'boolean': _read_exact(bool), 'decimal': _read_decimal, 'double': _read_number,
    'float': lambda value: single(_read_number(value)), 'int': _read_exact(int), 'json': _read_json,
    'long': _read_text_number, 'string': str.encode, 'timestamp': _read_timestamp, 'timeuuid': _read_timeuuid,
    'uuid': _read_uuid, 'varint': _read_text_number,
}


def read(kind, value):
    """The key of what an answer holds. ValueError when it is not written as an answer must write it."""
    if value is None:
        return None
    try:
        if not kind.startswith('set<'):
            return _READERS[kind](value)
        keys = tuple(map(_READERS[kind[4:-1]], value))
        _must(keys and list(keys) == sorted(set(keys)))
        return keys
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise ValueError(f'no answer may write a {kind} as {value!r}') from None

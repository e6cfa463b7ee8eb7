#!/usr/bin/env python3
"""Writes the table behind the JSON of protobuf messages, which protobuf-c's own descriptors do not know.

Usage: wire_table.py DESCRIPTOR_SET HEADER OUT.c. DESCRIPTOR_SET is what protoc --descriptor_set_out gives; HEADER is
protoc-c's for the same files. A row for each field: its name in JSON, the other name it is read by, its kind, and for
messages the table of those. Fails on types that src/codec/wire.h does not have, and on a string that is not
string_as_bytes, for protobuf-c would cut it at a NUL.
"""
import re
import sys

TYPE_BOOL, TYPE_INT64, TYPE_INT32, TYPE_STRING, TYPE_MESSAGE, TYPE_BYTES = 8, 3, 5, 9, 11, 12
KINDS = {TYPE_BOOL: 'WIRE_BOOL', TYPE_INT32: 'WIRE_INT32', TYPE_STRING: 'WIRE_TEXT', TYPE_BYTES: 'WIRE_BYTES'}
STRING_AS_BYTES = 1019
FIELDS_MAX = 32  # a bit each in what the reader has seen


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def message(data):
    """{field number: [values]}: integers, and bytes of what is length-delimited."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            sys.exit(f'wire type {tag & 7} in a descriptor')
        found.setdefault(tag >> 3, []).append(value)
    return found


def text(found, number):
    return found.get(number, [b''])[0].decode()


def symbol(name):
    """protoc-c's: an underscore before each upper letter that follows a lower one."""
    return 'wire__' + re.sub(r'(?<=[^A-Z])(?=[A-Z])', '_', name).lower()


def field_row(where, data):
    field = message(data)
    name, json_name, kind = text(field, 1), text(field, 10), field[5][0]
    if kind == TYPE_STRING:
        options = message(field.get(8, [b''])[0])
        if STRING_AS_BYTES not in options:
            sys.exit(f'{where}.{name} is a string without string_as_bytes')
    if kind == TYPE_MESSAGE:
        of = text(field, 6).rpartition('.')[2]
        if of == 'Timestamp':
            return name, json_name, 'WIRE_TIME', 'NULL'
        return name, json_name, 'WIRE_MESSAGE', f'&{symbol(of)}__fields'
    if kind not in KINDS:
        sys.exit(f'{where}.{name} has a type that the codec does not know')
    return name, json_name, KINDS[kind], 'NULL'


def main():
    with open(sys.argv[1], 'rb') as file:
        files = message(file.read())[1]
    kinds = []
    for data in files:
        found = message(data)
        if text(found, 2) != 'google.protobuf' and found.get(4):
            kinds += [message(one) for one in found[4]]
    out = [f'/* Made by tools/wire_table.py; not to be edited. */\n#include "{sys.argv[2]}"\n',
           '#include "codec/wire_table.h"\n']
    names = [text(kind, 1) for kind in kinds if text(kind, 1) != 'Timestamp']
    out += [f'static const struct wire_message {symbol(name)}__fields;' for name in names]
    for kind in kinds:
        name = text(kind, 1)
        if name == 'Timestamp':
            continue
        fields = sorted(kind.get(2, []), key=lambda data: message(data)[3][0])
        if len(fields) > FIELDS_MAX:
            sys.exit(f'{name} has more than {FIELDS_MAX} fields')
        out.append(f'static const struct wire_field {symbol(name)}__rows[] = {{')
        for data in fields:
            row = field_row(name, data)
            out.append('    { .name = STR_INIT("%s"), .other = STR_INIT("%s"), .kind = %s, .of = %s },' % row)
        out.append('};')
        out.append(f'static const struct wire_message {symbol(name)}__fields = {{ &{symbol(name)}__descriptor, '
                   f'{symbol(name)}__rows }};')
    out.append('const struct wire_message *const wire_messages[] = {')
    out += [f'    &{symbol(name)}__fields,' for name in names]
    out += [f'}};\nconst unsigned wire_messages_count = {len(names)};']
    with open(sys.argv[3], 'w', encoding='ascii') as file:
        file.write('\n'.join(out) + '\n')


if __name__ == '__main__':
    main()

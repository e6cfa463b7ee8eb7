#!/usr/bin/env python3
"""Goal: the messages mean to us what they mean to Google's own library. Method: random messages and texts through
wire_echo and python3-protobuf's json_format; what either writes the other reads as the same, and broken JSON that one
takes and the other does too is the same message. The seed is printed, and taken from WIRE_SEED.

Usage: test_wire.py WIRE_ECHO DESCRIPTOR_SET
"""
import base64
import json
import os
import random
import subprocess
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2
except ImportError:
    if sys.executable != '/usr/bin/python3' and os.access('/usr/bin/python3', os.X_OK):
        os.execv('/usr/bin/python3', ['/usr/bin/python3', *sys.argv])
    print('skipped: python3-protobuf is not here; script/deps test installs it')
    sys.exit(77)

ROUNDS = 40            # of each type
TEXTS = ['', 'a', 'x\0y', 'é', '\u2028', '"\\/\b\f\n\r\t', '\x7f\x1f', '😀', '\ufffd', 'null', '1h', 'q' * 300]
SECONDS = [-62135596800, 253402300799, 0, -1, 1767225600]
NANOS = [0, 1, 999999999, 500000000, 123000000, 123456000]


class Echo:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, name, encoding, body):
        """(JSON, protobuf), or the error's text."""
        self.process.stdin.write(f'{name} {encoding} {len(body)}\n'.encode() + body)
        self.process.stdin.flush()
        word, *sizes = self.process.stdout.readline().decode().split()
        parts = [self.process.stdout.read(int(size)) for size in sizes]
        return parts if word == 'ok' else parts[0].decode()


def classes(path):
    """Of the descriptor set, with Google's own Timestamp for ours."""
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, 'rb') as file:
        files.ParseFromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    found, before = {}, ['google/protobuf/timestamp.proto']
    for file in files.file:
        if file.package == 'google.protobuf':
            continue
        del file.dependency[:]
        file.dependency.extend(before)
        before.append(file.name)
        file.options.Clear()
        for kind in file.message_type:
            for field in kind.field:
                field.options.Clear()
                if field.type_name == '.querator.Timestamp':
                    field.type_name = '.google.protobuf.Timestamp'
        pool.AddSerializedFile(file.SerializeToString())
        factory = message_factory.MessageFactory(pool)
        for kind in file.message_type:
            if kind.name != 'Timestamp':
                found[kind.name] = factory.GetPrototype(pool.FindMessageTypeByName(f'{file.package}.{kind.name}'))
    return found


def value(rng, field):
    if field.type == field.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 2, 3, 4, 50]))
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice([0, 1, -1, 7, 2**31 - 1, -2**31, rng.randrange(-2**31, 2**31)])


def fill(rng, message):
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        many = field.label == field.LABEL_REPEATED
        for _ in range(rng.choice([1, 1, 3, 9]) if many else 1):
            if field.message_type is None:
                one = value(rng, field)
                if many:
                    getattr(message, field.name).append(one)
                else:
                    setattr(message, field.name, one)
                continue
            inner = getattr(message, field.name)
            inner = inner.add() if many else inner
            inner.SetInParent()
            if field.message_type.name == 'Timestamp':
                inner.seconds, inner.nanos = rng.choice(SECONDS), rng.choice(NANOS)
            else:
                fill(rng, inner)


def twist(rng, node):
    """The same message in other words: quoted numbers, other base64, nulls for what is absent."""
    if isinstance(node, dict):
        return {key: twist(rng, one) for key, one in node.items()}
    if isinstance(node, list):
        return [twist(rng, one) for one in node]
    if isinstance(node, int) and not isinstance(node, bool):
        return rng.choice([node, str(node)])
    return node


def damage(rng, text):
    data = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        data[at:at + rng.randrange(3)] = rng.choice([b'', b'"', b'{', b'}', b',', b'null', b'1e2', b'0', b'\\u0000', b'x'])
    return bytes(data)


class Trial:
    def __init__(self, echo, name, kind):
        self.echo, self.name, self.kind = echo, name, kind

    def same(self, encoding, body, message, what):
        got = self.echo(self.name, encoding, body)
        if isinstance(got, str):
            sys.exit(f'{self.name}: {what} refused: {got}: {body[:500]!r}')
        for read in (json_format.Parse(got[0], self.kind()), self.kind.FromString(got[1])):
            if read != message:
                sys.exit(f'{self.name}: {what} is another message: {body[:500]!r} became {got[0][:500]!r}')
        return got[0]

    def run(self, rng):
        message = self.kind()
        fill(rng, message)
        written = self.same('protobuf', message.SerializeToString(), message, 'protobuf')
        own = json.loads(json_format.MessageToJson(message, preserving_proto_field_name=True))
        if json.loads(written) != own:
            sys.exit(f'{self.name}: JSON differs: {written[:500]!r} for {own}')
        for body in (json_format.MessageToJson(message), json.dumps(own), json.dumps(own, ensure_ascii=False, indent=1),
                     json.dumps(twist(rng, own))):
            self.same('json', body.encode(), message, 'JSON')
        return self.broken(rng, written)

    def broken(self, rng, written):
        """How many broken texts both took."""
        body = damage(rng, written)
        got = self.echo(self.name, 'json', body)
        if isinstance(got, str):
            return 0
        try:
            read = json_format.Parse(body, self.kind())
        except (json_format.ParseError, UnicodeDecodeError, ValueError):
            return 0
        if read != self.kind.FromString(got[1]):
            sys.exit(f'{self.name}: {body[:500]!r} is read as {got[0][:500]!r}, not as {read}')
        return 1


def base64_forms(echo, kinds, rng):
    """Either alphabet, padded or not, is the same bytes."""
    for n in range(40):
        data = rng.randbytes(n)
        forms = [base64.b64encode(data), base64.urlsafe_b64encode(data)]
        for form in forms + [form.rstrip(b'=') for form in forms]:
            got = echo('QueueProduceItem', 'json', b'{"bytes":"' + form + b'"}')
            if isinstance(got, str) or kinds['QueueProduceItem'].FromString(got[1]).bytes != data:
                sys.exit(f'base64 {form!r} is read as {got}')


def main():
    seed = int(os.environ.get('WIRE_SEED') or random.SystemRandom().randrange(2**32))
    print(f'WIRE_SEED={seed}')
    rng = random.Random(seed)
    echo, kinds = Echo(sys.argv[1]), classes(sys.argv[2])
    taken = 0
    for name, kind in kinds.items():
        for _ in range(ROUNDS):
            taken += Trial(echo, name, kind).run(rng)
    base64_forms(echo, kinds, rng)
    print(f'{len(kinds)} types, {ROUNDS} messages each; {taken} broken texts were taken by both')


if __name__ == '__main__':
    main()

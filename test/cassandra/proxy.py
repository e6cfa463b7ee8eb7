#!/usr/bin/env python3
"""A proxy between a client of CQL and a real node, which reads the protocol in versions 4 and 5: it
counts, it makes the node look like Cassandra 3.11, and it makes faults. All of it is set while it
runs.

    with Proxy(cluster.address(1), cluster.port) as proxy:
        client = connect(proxy.host, proxy.port)
        with proxy.counting() as counted:
            client.put(...)
        eq(counted['kinds'], {'SELECT': 1, 'BATCH': 1})
        rule = proxy.error('OVERLOADED', text='INSERT', times=1)
        client.put(...)
        rule.wait()

A rule holds for messages that match: opcode is one name of wire.OPCODES or several, text a pattern
that is searched in the statements of the request. It skips the first `after` of them, and is over
after `times`. Only the first rule that matches a message acts. Without compression by the client
unless lz4 is true; snappy is never offered.

By hand: proxy.py HOST:PORT [--listen HOST:PORT] [--control PORT] [--lz4]. It reads lines of JSON
from its standard input and from the control port, and answers each with one: {"do": "delay",
"to_client": 0.1}, {"do": "counts"}.
"""
import argparse
import asyncio
import collections
import contextlib
import json
import pathlib
import re
import socket
import struct
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'tools/cassandra'))
import wire                         # noqa: E402  pylint: disable=wrong-import-position
from old_node import OldNode        # noqa: E402  pylint: disable=wrong-import-position

READ_SIZE = 1 << 18
# Waiting in one direction of a connection; more, and its sender waits.
LANE_PIECES = 1024
CALL_TIMEOUT = 60
CLOSE_TIMEOUT = 5                   # for what is written and not sent yet
KIND = re.compile(r'\s*(\w+)')
OF_SYSTEM = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+system(?:_\w+)?\s*\.', re.I)
BATCH_TYPES = ('LOGGED', 'UNLOGGED', 'COUNTER')
SIDES = ('client', 'server')

Request = collections.namedtuple('Request', 'name texts columns')


class Rule:
    """What is done to messages that match. hits: how many it was done to."""

    def __init__(self, act, is_request, opcode=None, text=None, times=1, after=0):
        self.act, self.is_request = act, is_request
        self.opcodes = {opcode} if isinstance(opcode, str) else set(opcode or wire.OPCODE)
        unknown = self.opcodes - set(wire.OPCODE)
        if unknown:
            raise ValueError(f'no such opcode: {", ".join(unknown)}')
        self.text = None if text is None else re.compile(text)
        self.times, self.after = times, after
        self.hits = 0
        self._hit = threading.Condition()

    def matches(self, is_request, name, request):
        if is_request != self.is_request or self.times == 0 or name not in self.opcodes:
            return False
        if self.text and not (request and any(map(self.text.search, request.texts))):
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        with self._hit:
            self.hits += 1
            self._hit.notify_all()
        return True

    def wait(self, hits=1, timeout=CALL_TIMEOUT):
        """Returns when it was done so often."""
        with self._hit:
            if not self._hit.wait_for(lambda: self.hits >= hits, timeout):
                raise TimeoutError(
                    f'the rule hit {self.hits} times within {timeout} s, {hits} were expected')


class Counts(dict):
    """Figures, and tables of figures by name."""

    TABLES = ('requests', 'answers', 'errors', 'kinds', 'statements', 'prepared', 'batches',
              'whole', 'bytes')

    def __init__(self):
        tables = {name: collections.Counter() for name in self.TABLES}
        super().__init__(tables, connections=0, events=0)

    def copy(self):
        taken = Counts()
        for name, figure in self.items():
            taken[name] = figure.copy() if isinstance(figure, collections.Counter) else figure
        return taken

    def since(self, before):
        """What came to it since then, without what did not."""
        new = Counts()
        for name, figure in self.items():
            new[name] = figure - before[name]
        return new


class Lane:
    """One direction of a connection: pieces go out in order, each when it is due."""

    def __init__(self, proxy, side, writer, abort):
        self.proxy, self.side, self.writer, self.abort = proxy, side, writer, abort
        self.queue = asyncio.Queue(LANE_PIECES)

    async def put(self, piece, kept=None):
        """kept: of the piece only so many bytes are sent, and the connection is cut."""
        due = asyncio.get_running_loop().time() + self.proxy.delays[self.side]
        await self.queue.put((due, piece, kept))

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            due, piece, kept = await self.queue.get()
            if piece is None:
                return
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            budget = self.proxy.budgets[self.side]
            if budget is not None:
                if len(piece) >= budget:
                    kept, self.proxy.budgets[self.side] = budget, None
                else:
                    self.proxy.budgets[self.side] = budget - len(piece)
            await self._write(piece if kept is None else piece[:kept])
            if kept is not None:
                self.abort()
                return

    async def _write(self, piece):
        size = self.proxy.dribbles[self.side] or max(len(piece), 1)
        for at in range(0, len(piece), size):
            self.writer.write(piece[at:at + size])
            await self.writer.drain()
            if size < len(piece):
                await asyncio.sleep(0)


class Link:
    """One connection of a client, and the one to the node behind it."""

    def __init__(self, proxy, reader, writer):
        self.proxy, self.version = proxy, None
        self.readers, self.writers = {'client': reader}, {'client': writer}
        # Of what comes from that side.
        self.decoders = {side: wire.Decoder() for side in SIDES}
        self.lanes = {}
        self.pending = {}               # stream: Request
        self.compression = None         # that the client asked for, and the node shall use
        self.resets = False
        self.held = []                  # answers that come later
        self._over = asyncio.Event()

    async def run(self):
        tasks = []
        try:
            reader, writer = await asyncio.open_connection(self.proxy.node[0], self.proxy.node[1])
            self.readers['server'], self.writers['server'] = reader, writer
            for side, out in self.writers.items():
                out.get_extra_info('socket').setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.lanes[side] = Lane(self.proxy, side, out, self.abort)
            works = [lane.run() for lane in self.lanes.values()]
            works += [self.pump(side) for side in SIDES]
            tasks = [asyncio.ensure_future(work) for work in (*works, self._over.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass                        # no node: the client sees its connection end
        finally:
            tasks += self.held
            for task in tasks:
                task.cancel()
            for task in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(task, Exception) and not isinstance(task, OSError):
                    self.proxy.problems.append(task)
            for out in self.writers.values():
                if self.resets:
                    out.get_extra_info('socket').setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                out.close()
                with contextlib.suppress(OSError, asyncio.TimeoutError):
                    await asyncio.wait_for(out.wait_closed(), CLOSE_TIMEOUT)
                out.transport.abort()

    def abort(self, resets=False):
        self.resets = self.resets or resets
        self._over.set()

    async def pump(self, side):
        """What comes from that side goes to the other one, as the rules will have it."""
        other = SIDES[1 - SIDES.index(side)]
        handle = self.request if side == 'client' else self.answer
        decoder, lane = self.decoders[side], self.lanes[other]
        while True:
            data = await self.readers[side].read(READ_SIZE)
            if not data:
                await lane.put(None)    # what is on its way arrives
                await asyncio.Event().wait()
            self.proxy.count['bytes']['requests' if side == 'client' else 'answers'] += len(data)
            decoder.feed(data)
            while True:
                group = decoder.next()
                if group is None:
                    break
                framed, passed = decoder.framed, []
                for envelope in group:
                    passed += await handle(envelope)
                if passed and side not in self.proxy.silent:
                    for piece in wire.encode(passed, framed, decoder.lz4):
                        await lane.put(piece)

    def plain(self, envelope):
        """The body without the compression of version 4; it is whole already in version 5."""
        if not envelope.flags & wire.COMPRESSED:
            return envelope
        body = wire.lz4_decompress(envelope.body[4:], int.from_bytes(envelope.body[:4], 'big'))
        return envelope.copy(flags=envelope.flags & ~wire.COMPRESSED, body=body)

    async def say(self, envelopes, kept=None, spoil=None):
        """To the client, apart from the segments of the node. spoil: changes the first piece."""
        decoder = self.decoders['server']
        pieces = wire.encode(envelopes, decoder.framed, decoder.lz4)
        if spoil:
            pieces[0] = spoil(pieces[0], decoder.framed)
        for piece in pieces[:1] if kept is not None else pieces:
            await self.lanes['client'].put(piece, kept)

    async def refuse(self, stream, name, message, **fields):
        version = self.version or wire.V4
        await self.say([wire.Envelope(version | wire.ANSWER, 0, stream, wire.OPCODE['ERROR'],
                                      wire.error_body(name, message, version, **fields))])

    # ---- requests: what is given back goes on to the node

    async def request(self, envelope):
        self.version = envelope.version & 0x7f
        name, old = envelope.name, self.proxy.old
        self.proxy.count['requests'][name] += 1
        refused = old and not self.decoders['client'].framed and old.refused_version(envelope)
        if refused:
            await self.say([refused])
            await self.lanes['client'].put(None)
            return []
        request = self.understood(name, self.plain(envelope).body)
        self.pending[envelope.stream] = request
        if name == 'STARTUP' and not await self.startup(envelope):
            return []
        if old:
            refusals = filter(None, map(old.refused_text, request.texts))
            for refusal in refusals:
                await self.refuse(envelope.stream, *refusal)
                return []
        rule = self.proxy.rule_for(True, name, request)
        return [envelope] if rule is None else await rule.act(self, envelope, request)

    async def startup(self, envelope):
        options = wire.Reader(envelope.body).string_map()
        self.compression = options.get('COMPRESSION')
        if self.compression in (None, 'lz4' if self.proxy.lz4 else None):
            return True
        await self.refuse(envelope.stream, 'PROTOCOL_ERROR',
                          f'Unknown compression algorithm: {self.compression}')
        return False

    def understood(self, name, body):
        """What is asked; counted."""
        count, texts, columns = self.proxy.count, [], None
        if name in ('QUERY', 'PREPARE'):
            texts = [wire.Reader(body).long_string()]
        elif name == 'EXECUTE':
            text, columns = _prepared.get(wire.Reader(body).short_bytes(), ('?', None))
            texts = [text]
        elif name == 'BATCH':
            count['batches'][BATCH_TYPES[body[0]]] += 1
            texts = [text if kind == 0 else _prepared.get(text, ('?', None))[0]
                     for kind, text in wire.batch_statements(body)]
        if name == 'PREPARE':
            count['prepared'][texts[0]] += 1
        else:
            for text in texts:
                count['statements'][text] += 1
        if name in ('QUERY', 'EXECUTE', 'BATCH'):
            count['whole']['; '.join(texts)] += 1
        if name in ('QUERY', 'EXECUTE'):
            found = KIND.match(texts[0])
            kind = 'SYSTEM' if OF_SYSTEM.search(texts[0]) else found[1].upper() if found else '?'
            count['kinds'][kind] += 1
        elif name == 'BATCH':
            count['kinds']['BATCH'] += 1
        return Request(name, texts, columns)

    # ---- answers: what is given back goes on to the client

    async def answer(self, envelope):
        name = envelope.name
        self.proxy.count['answers'][name] += 1
        if envelope.stream == wire.EVENT_STREAM:
            self.proxy.count['events'] += 1
        request = self.pending.pop(envelope.stream, None)
        if name in ('READY', 'AUTHENTICATE') and (self.version or 0) >= wire.V5:
            for decoder in self.decoders.values():
                if not decoder.framed:
                    decoder.lz4 = self.compression == 'lz4'
            passed = await self.changed(envelope, name, request)
            for decoder in self.decoders.values():
                decoder.framed = True
            return passed
        return await self.changed(envelope, name, request)

    async def changed(self, envelope, name, request):
        plain = self.plain(envelope)
        if name == 'SUPPORTED':
            options = wire.Reader(plain.body).string_multimap()
            options['COMPRESSION'] = ['lz4'] if self.proxy.lz4 else []
            options = self.proxy.old.supported(options) if self.proxy.old else options
            envelope = plain.copy(body=wire.string_multimap(options))
        elif name == 'ERROR':
            code = wire.Reader(wire.behind_extras(plain)[1]).int()
            self.proxy.count['errors'][wire.ERROR_NAMES.get(code, hex(code))] += 1
        elif name == 'RESULT':
            if request and request.name == 'PREPARE':
                self.learn(plain, request)
            if self.proxy.old:
                new = self.proxy.old.result(plain, request and request.columns)
                envelope = envelope if new is plain else new
        rule = self.proxy.rule_for(False, name, request)
        return [envelope] if rule is None else await rule.act(self, envelope, request)

    @staticmethod
    def learn(answer, request):
        reader = wire.Reader(wire.behind_extras(answer)[1])
        if reader.int() == wire.PREPARED:
            prepared = wire.Prepared(reader, answer.version & 0x7f)
            _prepared[prepared.id] = (request.texts[0], prepared.metadata.columns)


# An id is a digest of the text and means the same at all nodes, and so at all proxies:
# {id: (text, columns of its rows)}.
_prepared = {}


def spoiler(part, offset):
    """A function that changes one bit of a piece: of a segment's header, its payload, or the
    checksum of either."""
    def spoil(piece, framed):
        piece = bytearray(piece)
        header = 3 if framed else 0
        places = {'header': 0, 'header_crc': header, 'payload': header + 3, 'crc': len(piece) - 4}
        if not framed:
            places = {'header': 0, 'payload': wire.HEADER_SIZE}
        if part not in places:
            raise ValueError(f'{part}: there are {", ".join(places)}')
        piece[places[part] + offset] ^= 0x01 if framed else 0x20
        return bytes(piece)
    return spoil


class Proxy:
    """In front of the node at host and port; it listens when this returns. All methods may be
    called from any thread."""

    def __init__(self, host, port, listen=('127.0.0.1', 0), lz4=False):
        self.node, self.lz4 = (host, port), lz4
        self.host, self.port = listen
        self.count = Counts()
        self.rules, self.old, self.problems = [], None, []
        self.silent = set()                         # sides whose messages go nowhere
        self.delays = dict.fromkeys(SIDES, 0.0)     # of what goes to that side
        # Bytes that may still go there before the connection is cut.
        self.budgets = dict.fromkeys(SIDES)
        self.dribbles = dict.fromkeys(SIDES)        # bytes at once
        self._links = {}
        self._server = self._control = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name='proxy', daemon=True)
        self._thread.start()
        self.listen(True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def _call(self, work):
        """The result of work, a function or a coroutine, on the thread of the proxy."""
        async def run():
            result = work()
            return await result if asyncio.iscoroutine(result) else result
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_TIMEOUT)

    async def _serve(self, reader, writer):
        link = Link(self, reader, writer)
        self._links[link] = asyncio.current_task()
        self.count['connections'] += 1
        try:
            await link.run()
        finally:
            self._links.pop(link, None)

    def close(self):
        """Raises what went wrong inside, such as a message of the client that is not the
        protocol."""
        async def end():
            for server in (self._server, self._control):
                if server is not None:
                    server.close()
            tasks = list(self._links.values())
            for link in self._links:
                link.abort()
            await asyncio.gather(*tasks, return_exceptions=True)

        if self._loop.is_closed():
            return
        self._call(end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT)
        self._loop.close()
        if self.problems:
            raise self.problems[0]

    # ---- what it saw

    def counts(self):
        """connections, events; by opcode: requests, answers; errors by name; kinds: SELECT, INSERT,
        BATCH, SYSTEM and such; by text: statements, of whatever request, and prepared; whole:
        requests by all their texts; batches by type; bytes of requests and answers."""
        return self._call(self.count.copy)

    def reset_counts(self):
        self._call(lambda: setattr(self, 'count', Counts()))

    @contextlib.contextmanager
    def counting(self):
        """Gives counts that are filled when the block is over, with what came in it."""
        before, counted = self.counts(), Counts()
        yield counted
        counted.update(self.counts().since(before))

    def open_connections(self):
        return self._call(lambda: len(self._links))

    # ---- what it is

    def hide_3_11(self, on=True, blunt=False):
        """Looks like Cassandra 3.11 from the next message on; old_node.py tells how. Connections
        that are open stay."""
        self._call(lambda: setattr(self, 'old', OldNode(blunt) if on else None))

    def listen(self, on=True):
        """Not: connections are refused, as of a node that is down. Those that are open stay."""
        async def start():
            if on and self._server is None:
                self._server = await asyncio.start_server(self._serve, self.host, self.port)
                self.port = self._server.sockets[0].getsockname()[1]
            elif not on and self._server is not None:
                self._server.close()
                self._server = None
        self._call(start)

    # ---- faults of connections

    def delay(self, to_server=0.0, to_client=0.0):
        """Seconds by which each piece is late from now on, in each direction."""
        self._call(lambda: self.delays.update(client=to_client, server=to_server))

    def dribble(self, to_server=None, to_client=None):
        """So many bytes at once from now on."""
        self._call(lambda: self.dribbles.update(client=to_client, server=to_server))

    def half_open(self, on=True, answers=True, requests=True):
        """Swallows whole messages and keeps connections open, new ones too: the network that lost
        its way."""
        wanted = (('server', answers), ('client', requests))
        silent = {side for side, swallows in wanted if on and swallows}
        self._call(lambda: setattr(self, 'silent', silent))

    def cut(self, reset=False):
        """All connections end now; reset: by RST."""
        self._call(lambda: [link.abort(reset) for link in self._links])

    def cut_after(self, to_server=None, to_client=None):
        """The connection that sends that byte ends behind it; None: none does."""
        self._call(lambda: self.budgets.update(client=to_client, server=to_server))

    # ---- faults of messages

    def rule_for(self, is_request, name, request):
        for rule in self.rules:
            if rule.matches(is_request, name, request):
                return rule
        return None

    def _rule(self, act, is_request, match):
        rule = Rule(act, is_request, **match)
        self._call(lambda: self.rules.append(rule))
        return rule

    def clear(self):
        """No faults from now on, and no rules; it still looks like 3.11 when it did."""
        def all_of_them():
            self.rules, self.silent = [], set()
            for table, none in ((self.delays, 0.0), (self.budgets, None), (self.dribbles, None)):
                table.update(dict.fromkeys(SIDES, none))
        self._call(all_of_them)

    def error(self, name, message='made by the proxy', fields=None, executed=False, **match):
        """Answers a request with this error of wire.ERRORS; fields as of wire.error_body. executed:
        the node has the request, and its answer is lost instead."""
        fields = dict(fields or {})
        wire.error_body(name, message, wire.V5, **fields)      # unknown names are said here
        if isinstance(fields.get('id'), str):
            fields['id'] = bytes.fromhex(fields['id'])

        async def act(link, envelope, request):
            own = dict(fields)
            if name == 'UNPREPARED' and 'id' not in own and envelope.name == 'EXECUTE':
                own['id'] = wire.Reader(link.plain(envelope).body).short_bytes()
            await link.refuse(envelope.stream, name, message, **own)
            return []
        usual = {} if executed else {'opcode': ('QUERY', 'EXECUTE', 'BATCH')}
        return self._rule(act, not executed, {**usual, **match})

    def swallow(self, answer=True, **match):
        """The answer is lost; answer=False: the request is."""
        async def act(link, envelope, request):
            return []
        return self._rule(act, not answer, match)

    def hold(self, seconds, **match):
        """The answer comes so much later; those of other requests pass it by."""
        async def act(link, envelope, request):
            async def later():
                await asyncio.sleep(seconds)
                await link.say([envelope])
            link.held.append(asyncio.ensure_future(later()))
            return []
        return self._rule(act, False, match)

    def duplicate(self, **match):
        async def act(link, envelope, request):
            return [envelope, envelope]
        return self._rule(act, False, match)

    def wrong_stream(self, by=1000, **match):
        async def act(link, envelope, request):
            return [envelope.copy(stream=(envelope.stream + by) & 0x7fff)]
        return self._rule(act, False, match)

    def cut_at(self, answer=True, kept=0, reset=False, **match):
        """The connection ends instead of an answer, of which the first bytes come; answer=False:
        instead of a request."""
        async def act(link, envelope, request):
            if answer and kept:
                await link.say([envelope], kept=kept)
            else:
                link.abort(reset)
            return []
        return self._rule(act, not answer, match)

    def corrupt(self, part='payload', offset=0, **match):
        """Changes a bit of the segment that an answer comes in: part is header, header_crc, payload
        or crc; of an envelope of version 4: header or payload."""
        spoil = spoiler(part, offset)

        async def act(link, envelope, request):
            await link.say([envelope], spoil=spoil)
            return []
        return self._rule(act, False, match)

    # ---- the lines of control

    VERBS = ('counts', 'reset_counts', 'open_connections', 'hide_3_11', 'listen', 'delay',
             'dribble', 'half_open', 'cut', 'cut_after', 'clear', 'error', 'swallow', 'hold',
             'duplicate', 'wrong_stream', 'cut_at', 'corrupt')

    def obey(self, line):
        """The answer to a line of control, a line too."""
        try:
            words = json.loads(line)
            verb = words.pop('do')
            if verb not in self.VERBS:
                raise ValueError(f'{verb}: there are {", ".join(self.VERBS)}')
            result = getattr(self, verb)(**words)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return json.dumps({'error': f'{type(error).__name__}: {error}'})
        return json.dumps({'ok': result if isinstance(result, (dict, int)) else None})

    def control(self, port=0):
        """Obeys lines on this port of 127.0.0.1 from now on; returns the port."""
        async def serve(reader, writer):
            while line := await reader.readline():
                answer = await self._loop.run_in_executor(None, self.obey, line)
                writer.write(answer.encode() + b'\n')
                await writer.drain()
            writer.close()

        async def start():
            self._control = await asyncio.start_server(serve, '127.0.0.1', port)
            return self._control.sockets[0].getsockname()[1]
        return self._call(start)


class Proxies(dict):
    """One in front of each node of a cluster, by number. That of 127.0.0.N is 127.0.1.N, on the
    port of the nodes: a client that is told addresses by a node needs address_map alone."""

    def __init__(self, cluster, **options):
        super().__init__()
        self.port = cluster.port
        try:
            for n in cluster.numbers:
                self[n] = Proxy(cluster.address(n), cluster.port, (f'127.0.1.{n}', cluster.port),
                                **options)
        except BaseException:
            self.close()
            raise
        self.address_map = {cluster.address(n): self[n].host for n in cluster.numbers}
        self.contact_points = [proxy.host for proxy in self.values()]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def close(self):
        with contextlib.ExitStack() as ends:
            for proxy in self.values():
                ends.callback(proxy.close)

    def counts(self):
        """Of all of them."""
        total = Counts()
        for proxy in self.values():
            for name, figure in proxy.counts().items():
                total[name] += figure
        return total


def place(text):
    host, _, port = text.rpartition(':')
    return host, int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('node', type=place, help='HOST:PORT of the node')
    parser.add_argument('--listen', type=place, default=('127.0.0.1', 0),
                        help='HOST:PORT [127.0.0.1 and a free one]')
    parser.add_argument('--control', type=int,
                        help='a port of 127.0.0.1 for lines of control; 0: a free one')
    parser.add_argument('--lz4', action='store_true', help='let the client compress by LZ4')
    args = parser.parse_args()
    proxy = Proxy(*args.node, listen=args.listen, lz4=args.lz4)
    said = {'host': proxy.host, 'port': proxy.port}
    if args.control is not None:
        said['control'] = proxy.control(args.control)
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        if line.strip():
            print(proxy.obey(line), flush=True)
    threading.Event().wait()


if __name__ == '__main__':
    with contextlib.suppress(KeyboardInterrupt):
        main()

"""What a server makes of bytes on a connection, in few words, and the file that keeps such words.

An entry of the file:

    = NAME
    > GET /a HTTP/1.1\\r\\n                    the bytes, a line for each line of theirs; other bytes as \\xNN
    > Host: a\\r\\n
    > \\r\\n
    old 404 not_found#route, kept           the answers of the server that was recorded, in order, and the connection's end
    now 400 bad_request, closed             what is answered since, where it differs; then the name of the reason
    why NAME

A reason is a line `why NAME: TEXT` above all entries. An answer is its status, then the type of its body: the end of a problem's
`type`, or a media type. `no body` is said of an answer whose Content-Length is more than what came. The connection is
`kept` when a request sent right behind the bytes was answered as one of its own."""
import json
import re
import socket
import threading

PAGE = '/localhost/v1/page/html/'
BEHIND = b'GET /behind HTTP/1.1\r\nHost: behind\r\nConnection: close\r\n\r\n'
# Who waits for the end of a head or a body is cut soon; who has not sent yet, late.
OPTIONS = ('--set', 'http.head_timeout=2s', '--set', 'http.idle_timeout=1m', '--set', 'http.body_bytes_per_s_min=1M')
ANSWER_TIMEOUT = 120
AT_ONCE = 40


class Entry:
    def __init__(self, name, sent, old='', now='', why=''):
        self.name, self.sent, self.old, self.now, self.why = name, sent, old, now, why

    @property
    def wanted(self):
        return self.now or self.old


# ---- the file

def line_of(sent):
    text = sent.decode('latin-1').replace('\\', '\\\\').replace('\r', '\\r').replace('\n', '\\n').replace('\t', '\\t')
    text = re.sub(r'[^ -~]| $', lambda found: f'\\x{ord(found[0]):02x}', text)
    return f'> {text}\n'


def bytes_of(text):
    return text.encode('latin-1').decode('unicode_escape').encode('latin-1')


def write(path, header, reasons, entries):
    with open(path, 'w', encoding='ascii') as file:
        file.write(header)
        file.writelines(f'why {name}: {text}\n' for name, text in reasons.items())
        for entry in entries:
            file.write(f'\n= {entry.name}\n')
            file.writelines(line_of(line) for line in re.findall(rb'[^\n]*\n|[^\n]+', entry.sent))
            file.write(f'old {entry.old}\n')
            if entry.now:
                file.write(f'now {entry.now}\nwhy {entry.why}\n')


def read(path):
    """({reason: text}, entries)"""
    reasons, entries = {}, []
    for number, line in enumerate(path.read_text(encoding='ascii').splitlines(), 1):
        word, _, rest = line.partition(' ')
        if word == '=':
            entries.append(Entry(rest, b''))
        elif word == '>':
            entries[-1].sent += bytes_of(rest)
        elif word == 'why' and not entries:
            name, _, text = rest.partition(': ')
            reasons[name] = text
        elif word in ('old', 'now', 'why') and entries and not getattr(entries[-1], word):
            setattr(entries[-1], word, rest)
        elif line and word != '#':
            raise ValueError(f'{path.name}:{number}: {line}')
    return reasons, entries


# ---- the server's answers

def answers_of(got):
    """The answers in got: (status, {field: value}, body, what was promised of it)."""
    found = []
    while b'\r\n\r\n' in got:
        head, _, got = got.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        status = re.fullmatch(r'HTTP/1\.1 (\d{3}) .*', lines[0])
        if status is None:
            raise ValueError(f'no answer: {head[:200]}')
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines[1:])}
        size = int(fields.get('content-length', 0))
        body = b'' if got.startswith(b'HTTP/1.1 ') else got[:size]
        got = got[len(body):]
        found.append((int(status[1]), fields, body, size))
    if got:
        raise ValueError(f'behind the answers: {got[:200]}')
    return found


def words_of(got):
    """As in the file; and what the problems say at length."""
    words, details, end = [], [], 'closed'
    for status, fields, body, size in answers_of(got):
        kind = fields.get('content-type', '').partition(';')[0]
        problem = json.loads(body) if kind == 'application/problem+json' and body else {}
        if problem.get('uri') == '/behind' and status == 404:
            end = 'kept'
            break
        kind = problem['type'].rpartition('/')[2] if 'type' in problem else kind
        words.append(' '.join(filter(None, (str(status), kind, 'no body' if size > len(body) else ''))))
        details.append(problem.get('detail', ''))
    return ', '.join((*words, end)), ' | '.join(details)


def exchange(server, sent):
    got = b''
    with server.connect(ANSWER_TIMEOUT) as peer:
        try:
            peer.sendall(sent + BEHIND)
            while piece := peer.recv(1 << 16):
                got += piece
                if b'\r\ncontent-type: text/event-stream' in got.lower():
                    break       # it has no end
        except ConnectionError:     # a reset is an end, too; what came before it counts
            pass
        except socket.timeout:
            raise ValueError(f'neither answered nor ended: {sent}; got {got[:200]}') from None
    return got


def play(server, inputs):
    """[(words, details)] of each input. A page is stored and ready before."""
    path = PAGE + 'Told'
    if server.request('PUT', path + '/1', {'Content-Type': 'text/html'}, b'told').status not in (200, 201):
        raise ValueError('the page is not stored')
    for _ in range(3):
        server.request('GET', path)
    said = [None] * len(inputs)
    todo = iter(range(len(inputs)))
    lock = threading.Lock()

    def client():
        while True:
            with lock:
                i = next(todo, None)
            if i is None:
                return
            try:
                said[i] = words_of(exchange(server, inputs[i]))
            except (ValueError, KeyError) as error:
                said[i] = (f'{type(error).__name__}: {error}', '')
    clients = [threading.Thread(target=client) for _ in range(AT_ONCE)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return said

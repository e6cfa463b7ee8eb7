"""Goal: what the two HTTP servers of earlier releases made of bytes on a connection, the one of today makes of them: the same
statuses and kinds of body, and a connection that is kept or ended. Method: test/data/http_672f4722.txt has the bytes and what
was answered then; all are sent again. What is answered otherwise on purpose stands there with its reason."""
import collections
import pathlib

import transcripts
from harness import Server, check, eq, main, scene

FILE = pathlib.Path(__file__).resolve().parents[1] / 'data' / 'http_672f4722.txt'
ENTRIES_LEAST = 200


@scene
def bytes_on_a_connection_are_answered_as_they_were(binary):
    reasons, entries = transcripts.read(FILE)
    check(len(entries) >= ENTRIES_LEAST, f'{len(entries)} entries')
    with Server(binary, *transcripts.OPTIONS) as server:
        said = transcripts.play(server, [entry.sent for entry in entries])
        eq(server.request('GET', transcripts.PAGE + 'Told').body, b'told', 'still served')
    differ = [f'{entry.name}: {entry.sent[:200]}: got {words} ({details}), want {entry.wanted}'
              for entry, (words, details) in zip(entries, said) if words != entry.wanted]
    eq(len(differ), 0, '; '.join(differ[:20]))
    used = collections.Counter(entry.why for entry in entries if entry.now)
    eq(sorted(used), sorted(reasons), 'the reasons that are named, and those that are given')
    eq([entry.name for entry in entries if entry.now == entry.old], [], 'changed, and the same')


main()

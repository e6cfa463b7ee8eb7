#!/usr/bin/env python3
"""Records what a binary makes of bytes on a connection; prints what a binary of today makes of them otherwise.

Usage: make_transcripts.py record THEN NOW NAME FOLDER...   writes NAME.txt beside this file from the inputs in the folders:
                                                            what the binary THEN answers
       make_transcripts.py differ NOW NAME                  the entries that this binary answers in another way, with its words

Inputs are those of fuzz_http_lane, fuzz_http_head and fuzz_http_wire. Their targets get the paths of a store: /told is a page that is
ready, /none one to write, /count a call with a body. Of the first folder all are taken. Of the others the shortest are: KIND_MAX of
each kind of answer, then and now, until there are INPUTS_MAX, or BYTES_MAX in all. What is not answered the same in each of
ROUNDS rounds is left out.
"""
import collections
import itertools
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'scene')]

import harness                                                                   # noqa: E402
import transcripts                                                               # noqa: E402
from harness import Server                                                       # noqa: E402

INPUTS_MAX, BYTES_MAX, KIND_MAX, ROUNDS = 300, 65536, 12, 3
HEADER = '''# What the server made of these bytes at commit {commit}, the last with two HTTP servers in one: lanes of our own for ready
# answers, libmicrohttpd for all else. test/scene/scene_http_transcripts.py holds the server of today to it.
#
# seed_: the seeds of that commit's fuzz_http_lane and fuzz_http_wire, the requests of its test_http_lane.c and scene_http_wire.py, and
# five by hand. head_, wire_: what fuzz_http_head and fuzz_http_wire found beside them in 16 minutes, merged: of each kind of answer the
# shortest. "Told" is a page that is stored and ready. Each was sent in one piece, with another request behind it.
#
# test/scene/transcripts.py says how to read this, test/data/README.md how it was made. The lines `old` stay as they are. What is
# answered otherwise on purpose has a line `now` and the name of its reason.

'''


def renamed(sent, name):
    page = transcripts.PAGE
    for old, new in (('/told', f'{page}Told'), ('/same', f'{page}Same'), ('/none', f'{page}None_{name}/1'), ('/count', '/v1/queues.list')):
        sent = sent.replace(old.encode(), new.encode())
    return sent


def inputs_of(folder, start):
    seen = sorted({file.read_bytes() for file in pathlib.Path(folder).iterdir()}, key=lambda sent: (len(sent), sent))
    return [transcripts.Entry(f'{start}{i:04}', renamed(sent, f'{start}{i:04}')) for i, sent in enumerate(seen) if sent]


def played(binary, entries):
    with Server(binary, *transcripts.OPTIONS) as server:
        return transcripts.play(server, [entry.sent for entry in entries])


def stable(binary, entries):
    """{entry: (words, details)} of those that are answered the same in each round."""
    rounds = [played(binary, entries) for _ in range(ROUNDS)]
    same = {entry: said[0] for entry, said in zip(entries, zip(*rounds)) if len(set(said)) == 1 and 'Error' not in said[0][0]}
    print(f'{len(entries) - len(same)} of {len(entries)} are not answered the same each time', file=sys.stderr)
    return same


def chosen(seeds, found):
    """All seeds, and some of found: {entry: its kind}."""
    kinds = collections.defaultdict(list)
    for entry in sorted(found, key=lambda one: len(one.sent)):
        kinds[found[entry]].append(entry)
    turns = itertools.zip_longest(*(entries[:KIND_MAX] for entries in kinds.values()))
    taken, size = list(seeds), sum(len(entry.sent) for entry in seeds)
    for entry in filter(None, itertools.chain.from_iterable(turns)):
        if len(taken) < INPUTS_MAX and size + len(entry.sent) <= BYTES_MAX:
            taken.append(entry)
            size += len(entry.sent)
    print(f'{len(taken)} inputs, {size} bytes, {len(kinds)} kinds', file=sys.stderr)
    return sorted(taken, key=lambda entry: entry.name)


def record(then, now, name, folders):
    harness.PATIENT = ()        # a binary of then does not know options of today
    seeds = inputs_of(folders[0], 'seed_')
    found = [entry for folder in folders[1:] for entry in inputs_of(folder, pathlib.Path(folder).name.removeprefix('merged_') + '_')]
    found = list({entry.sent: entry for entry in found[::-1] + seeds}.values())
    found = [entry for entry in found if entry not in seeds]
    old, new = stable(then, seeds + found), stable(now, seeds + found)
    for entry, (words, _) in old.items():
        entry.old = words
    kinds = {entry: (old[entry], new[entry]) for entry in found if entry in old and entry in new}
    taken = chosen([entry for entry in seeds if entry in old], kinds)
    transcripts.write(HERE / f'{name}.txt', HEADER.format(commit=name.rpartition('_')[2]), {}, taken)


def differ(binary, name):
    _, entries = transcripts.read(HERE / f'{name}.txt')
    for entry, (words, details) in zip(entries, played(binary, entries)):
        if words != entry.wanted:
            print(f'= {entry.name}\n{entry.sent}\n  wanted {entry.wanted}\n  now    {words}    {details}')


def main():
    what, *rest = sys.argv[1:] or ('',)
    if what == 'record' and len(rest) > 3:
        record(*rest[:3], rest[3:])
    elif what == 'differ' and len(rest) == 2:
        differ(*rest)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    sys.exit(main())

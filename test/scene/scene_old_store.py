"""Goal: a store of an earlier release opens, is whole, and answers as the release that wrote it. Method: each store of
test/data is unpacked, checked and served by today's binary; every recorded question is asked again, as the store was left
and after a move of the clock, then keys are checked, then the store is written to, killed and checked once more."""
import json
import pathlib
import subprocess
import sys
import tempfile

from harness import Server, eq, main, scene
from page_help import get, instant, path, put, tid

DATA = pathlib.Path(__file__).resolve().parents[1] / 'data'
sys.path.insert(0, str(DATA))

import store_fill                                                                # noqa: E402

STORES = ('store_99d6794',)
TODAY = ('--set', 'value.listing=true')     # was always so


def is_whole(binary, data):
    done = subprocess.run([binary, 'check', '--data', data], capture_output=True, text=True, timeout=60, check=False)
    eq(done.returncode, 0, f'check: {done.stdout}{done.stderr}')


def holds(got, want):
    """Is it what was answered then? Objects may have got members since."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(name in got and holds(got[name], one) for name, one in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(holds, got, want))
    return got == want


@scene
def stores_of_earlier_releases_open_and_answer_as_then(binary):
    for name in STORES:
        expected = json.loads((DATA / f'{name}.json').read_text())
        changed = json.loads((DATA / f'{name}.changes.json').read_text())
        expected_now = lambda question: changed.get(question, {}).get('answer', expected['answers'][question])
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(['tar', '-xJf', DATA / f'{name}.tar.xz', '-C', folder], check=True)
            data = pathlib.Path(folder) / 'data'
            is_whole(binary, data)
            with Server(binary, *store_fill.options(), *TODAY, data=data, test_hooks=instant(store_fill.END)) as server:
                told = store_fill.ask_all(server)
                eq(sorted(told), sorted(expected['answers']), 'the same questions')
                differ = [f'{question}:\n  got  {answer}\n  want {wanted}' for question, answer in told.items()
                          if not holds(answer, wanted := expected_now(question))]
                eq(len(differ), 0, '\n'.join(differ))
                put(server, 'New', 1, b'of today', tid(store_fill.END))
                eq(server.kill9(), -9)
                server.start(*store_fill.options(), '--set', 'auth=internal')
                eq(store_fill.ask_doors(server, expected['keys']), expected['doors'], 'who may do what')
                store_fill.say_again(server, {'Authorization': f'Bearer {expected["keys"]["boss"]}'})
                eq(server.kill9(), -9)
                server.start(*store_fill.options())
                eq(get(server, 'New').body, b'of today')
                eq(server.request('DELETE', path('all', 'Earth')).status, 204)
                server.sigterm()
            is_whole(binary, data)


main()

"""Goal: script/run --lists brings everything up, shows five items of one list from four servers, serves its page, and is
ended without a trace.
Method: the script with the binary under test, in a folder of its own."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

from harness import check, eq, main, scene, wait_until


ROOT = pathlib.Path(__file__).resolve().parents[2]


@scene
def it_shows_one_list_from_four_servers_and_ends_them(binary):
    folder = pathlib.Path(tempfile.mkdtemp(prefix='lists-'))
    command = [str(ROOT / 'script/run'), '--lists', '--dir', str(folder / 'run')]
    try:
        done = subprocess.run([*command, '--binary', str(pathlib.Path(binary).resolve())], capture_output=True, text=True,
                              timeout=120, check=False)
        eq(done.returncode, 0, done.stderr)
        check('4 servers, 1 version, 5 distinct items, computed 1 time(s)' in done.stdout, done.stdout)
        address = re.search(r'Open (http://127\.0\.0\.1:\d+/)', done.stdout).group(1)
        with urllib.request.urlopen(address, timeout=30) as answer:
            check(b'/localhost/v1/lists/related/' in answer.read(), 'the page asks for lists')
        with urllib.request.urlopen(address + 'g/count?display=first-show', timeout=30) as answer:
            eq(json.load(answer), {'all': 1, 'display': 1})
        pids = [pid for _, pid, _ in json.loads((folder / 'run/pids.json').read_text())]
        eq(len(pids), 7, 'Redis, the generator, four servers, nginx')
    finally:
        ended = subprocess.run([*command, '--down'], capture_output=True, text=True, timeout=120, check=False)
    eq(ended.returncode, 0, ended.stderr)
    for pid in pids:
        wait_until(lambda pid=pid: not _runs(pid), f'{pid} is gone')
    shutil.rmtree(folder, ignore_errors=True)


def _runs(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


main()

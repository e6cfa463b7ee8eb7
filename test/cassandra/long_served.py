"""Goal and method as of scene_pages_served.py, with what takes longer: renders of a wiki, and
what it says of them. By hand: `python3 test/cassandra/long_served.py BINARY [NAME...]`, as fresh_wiki."""
import sys

import scene_pages_served

FILES = ('render_miss', 'render_titles', 'render_transform', 'fresh_wiki', 'fresh_late',
         'fresh_lag', 'fresh_reads', 'value_coded', 'value_secret')

if __name__ == '__main__':
    sys.exit(scene_pages_served.main(FILES))

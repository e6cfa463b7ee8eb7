"""Goal and method as of scene_pages_served.py, with what takes longer: renders of a wiki, and
what it says of them, whoever tells of it. By hand:
`python3 test/cassandra/long_served.py BINARY [NAME...]`, as fresh_wiki."""
import sys

import scene_pages_served

FILES = ('render_miss', 'render_titles', 'render_transform', 'fresh_wiki', 'fresh_late',
         'fresh_lag', 'fresh_reads', 'value_coded', 'value_secret', 'fresh_purge', 'fresh_gone',
         'fresh_events', 'fresh_rest', 'fresh_private', 'fresh_sweep', 'fresh_rerender',
         'render_faults', 'render_peer', 'flights_render', 'page_waiting', 'page_admin')

if __name__ == '__main__':
    sys.exit(scene_pages_served.main(FILES))

<?php
# Sends VisualEditor's loads and saves through Palimpsest; palimpsest.json beside this file says where it is.
( static function () {
	$where = json_decode( file_get_contents( __DIR__ . '/palimpsest.json' ), true );
	# The server's side: api.php asks {url}/{domain}/v1/page/html/... and .../v1/transform/...
	$GLOBALS['wgVirtualRestConfig']['modules']['restbase'] = [
		'url' => $where['url'], 'domain' => $where['domain'], 'timeout' => 30,
		'forwardCookies' => $where['forward'], 'parsoidCompat' => false,
	];
	# The browser's side: same origin, handed on by nginx.
	$GLOBALS['wgVisualEditorFullRestbaseURL'] = '/api/rest_';
} )();

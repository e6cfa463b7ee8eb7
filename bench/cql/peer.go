// peer.go - what load.c does, with the Go driver that Debian has: golang-github-gocql-gocql-dev.
//
//	GOPATH=/usr/share/gocode GO111MODULE=off go build -o peer bench/cql/peer.go
//	peer HOST:PORT DC write|read COUNT AT_A_TIME BYTES v4 [lz4] [quorum] [at_once]
//
// The driver is given what makes it cheap: statements prepared beforehand, a query that each worker
// binds anew, replicas by token, and no descriptions of columns in answers. It speaks protocol 4 only.
// It waits up to 200 us for more to send in one call; `at_once` takes that from it. GOMAXPROCS of the
// environment is how many threads run Go at a time.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocql/gocql"
	"github.com/gocql/gocql/lz4"
)

const (
	keys      = 1000
	insert    = "INSERT INTO load.page (title, rev, body) VALUES (?, ?, ?)"
	selection = "SELECT body FROM load.page WHERE title = ? AND rev = ?"
)

type load struct {
	session         *gocql.Session
	writes          bool
	count, atATime  int
	body            []byte
	begun, failed   int64
	took            []time.Duration
	why             string
	whyOnce         sync.Once
	seconds, cpuUse float64
}

func fatal(why interface{}) {
	fmt.Fprintln(os.Stderr, "peer.go:", why)
	os.Exit(2)
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func (l *load) query() *gocql.Query {
	if l.writes {
		return l.session.Query(insert)
	}
	return l.session.Query(selection)
}

func (l *load) once(query *gocql.Query, n int) error {
	key, rev := "page-"+strconv.Itoa(n%keys), int64(n/keys%4)
	if l.writes {
		return query.Bind(key, rev, l.body).Exec()
	}
	var body []byte
	if err := query.Bind(key, rev).Scan(&body); err != nil {
		return err
	}
	if len(body) != len(l.body) {
		return fmt.Errorf("a body of %d bytes", len(body))
	}
	return nil
}

func (l *load) work() {
	query := l.query()
	for {
		n := int(atomic.AddInt64(&l.begun, 1)) - 1
		if n >= l.count {
			return
		}
		began := time.Now()
		if err := l.once(query, n); err != nil {
			atomic.AddInt64(&l.failed, 1)
			l.whyOnce.Do(func() { l.why = err.Error() })
		}
		l.took[n] = time.Since(began)
	}
}

func (l *load) run() {
	if err := l.once(l.query(), 0); err != nil { // prepares it
		fatal(err)
	}
	cpu, began := cpuSeconds(), time.Now()
	var workers sync.WaitGroup
	for i := 0; i < l.atATime; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			l.work()
		}()
	}
	workers.Wait()
	l.seconds, l.cpuUse = time.Since(began).Seconds(), cpuSeconds()-cpu
}

func (l *load) print() {
	sort.Slice(l.took, func(i, j int) bool { return l.took[i] < l.took[j] })
	fmt.Printf("{\"requests\": %d, \"failed\": %d, \"seconds\": %.3f, \"cpu_s\": %.3f, "+
		"\"per_s\": %.0f, \"per_cpu_s\": %.0f, \"p50_us\": %d, \"p99_us\": %d}\n",
		l.count, l.failed, l.seconds, l.cpuUse, float64(l.count)/l.seconds, float64(l.count)/l.cpuUse,
		l.took[l.count/2].Microseconds(), l.took[l.count-1-l.count/100].Microseconds())
	if l.failed > 0 {
		fatal(l.why)
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil || n <= 0 {
		fatal("COUNT, AT_A_TIME or BYTES")
	}
	return n
}

func main() {
	flags := map[string]bool{}
	for _, word := range os.Args[1:] {
		flags[word] = true
	}
	if len(os.Args) < 8 || !flags["v4"] {
		fatal("usage: peer HOST:PORT DC write|read COUNT AT_A_TIME BYTES v4 [lz4] [quorum] [at_once]")
	}
	colon := strings.LastIndex(os.Args[1], ":")
	if colon < 0 {
		fatal("HOST:PORT")
	}
	cluster := gocql.NewCluster(os.Args[1][:colon])
	cluster.Port = number(os.Args[1][colon+1:])
	cluster.ProtoVersion = 4
	cluster.Keyspace = "load" // else it knows no replicas
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 5 * time.Second
	cluster.DefaultIdempotence = true
	cluster.PoolConfig.HostSelectionPolicy =
		gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(os.Args[2]))
	cluster.Consistency = gocql.LocalOne
	l := load{writes: os.Args[3] == "write", count: number(os.Args[4]), atATime: number(os.Args[5])}
	if l.writes || flags["quorum"] {
		cluster.Consistency = gocql.LocalQuorum
	}
	if flags["lz4"] {
		cluster.Compressor = lz4.LZ4Compressor{}
	}
	if flags["at_once"] {
		cluster.WriteCoalesceWaitTime = 0
	}
	l.body = make([]byte, number(os.Args[6]))
	for i := range l.body {
		l.body[i] = byte(uint64(i) * 2654435761 >> 13)
	}
	l.took = make([]time.Duration, l.count)
	var err error
	if l.session, err = cluster.CreateSession(); err != nil {
		fatal(err)
	}
	l.run()
	l.session.Close()
	l.print()
}

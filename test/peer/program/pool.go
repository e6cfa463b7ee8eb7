package main

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/duh-rpc/duh-go"
	"github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	poolTimeout = 30 * time.Second
	jobs        = 60
)

// tally is what became of each job, by its payload.
type tally struct {
	sync.Mutex
	ended map[string]string
	seen  map[string]int // leases of each
	later *timestamppb.Timestamp
}

func (t *tally) left() int {
	t.Lock()
	defer t.Unlock()
	return jobs - len(t.ended)
}

// decide works on one item. Jobs that end in 7 fail once, in 8 want to be done later, in 9 fail always.
func (t *tally) decide(item *pb.QueueLeaseItem) (done bool, back *pb.QueueRetryItem) {
	t.Lock()
	defer t.Unlock()
	job := string(item.Bytes)
	t.seen[job]++
	last := job[len(job)-1]
	switch {
	case last == '7' && item.Attempts == 1:
		return false, &pb.QueueRetryItem{Id: item.Id}
	case last == '8' && item.Attempts == 1:
		return false, &pb.QueueRetryItem{Id: item.Id, RetryAt: t.later}
	case last == '9' && item.Attempts < 3:
		return false, &pb.QueueRetryItem{Id: item.Id}
	case last == '9':
		t.ended[job] = fmt.Sprintf("given up after %d attempts", item.Attempts)
		return false, &pb.QueueRetryItem{Id: item.Id, Dead: true}
	}
	t.ended[job] = fmt.Sprintf("completed after %d attempts", item.Attempts)
	return true, nil
}

// work leases, decides, completes and gives back, until all jobs have ended.
func (p *program) work(t *tally, worker int, failed *sync.Map) {
	end := time.Now().Add(poolTimeout)
	for t.left() > 0 && time.Now().Before(end) {
		var got pb.QueueLeaseResponse
		err := p.c.QueueLease(p.ctx, &pb.QueueLeaseRequest{QueueName: "mail", BatchSize: 5, RequestTimeout: "300ms",
			ClientId: fmt.Sprintf("worker-%d", worker)}, &got)
		if code(err) == duh.CodeRetryRequest {
			continue
		}
		if err != nil {
			failed.Store(outcome(err), true)
			return
		}
		var done []string
		var back []*pb.QueueRetryItem
		for _, item := range got.Items {
			if fine, again := t.decide(item); fine {
				done = append(done, item.Id)
			} else {
				back = append(back, again)
			}
		}
		if len(done) > 0 {
			err = p.complete("mail", got.Partition, done...)
		}
		if err == nil && len(back) > 0 {
			err = p.retry("mail", got.Partition, back...)
		}
		if err != nil {
			failed.Store(outcome(err), true)
		}
	}
}

func counts(of map[string]string) string {
	found := map[string]int{}
	for _, what := range of {
		found[what]++
	}
	var lines []string
	for what, n := range found {
		lines = append(lines, fmt.Sprintf("%d %s", n, what))
	}
	sort.Strings(lines)
	return strings.Join(lines, ", ")
}

// together runs f for 0..n-1 at once and waits.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			f(i)
		}()
	}
	all.Wait()
}

// pool: four workers on one queue, with jobs that fail, that are put off, and that are given up.
func pool(p *program) {
	p.create(queue("mail-dead"))
	info := queue("mail")
	info.DeadQueue, info.MaxAttempts = "mail-dead", 5
	p.create(info)
	t := &tally{ended: map[string]string{}, seen: map[string]int{},
		later: timestamppb.New(time.Now().Add(2 * time.Second))}
	var failed sync.Map
	go together(6, func(i int) {
		for j := range jobs / 6 {
			if err := p.produce("mail", &pb.QueueProduceItem{Utf8: fmt.Sprintf("job-%d%d", i, j), Kind: "mail"}); err != nil {
				failed.Store(outcome(err), true)
			}
		}
	})
	together(4, func(i int) { p.work(t, i, &failed) })
	failed.Range(func(message, _ any) bool {
		p.say("a worker failed: %s", message)
		return true
	})
	p.say("jobs: %s", counts(t.ended))
	leases := 0
	for _, n := range t.seen {
		leases += n
	}
	p.say("leases of %d jobs: %d", len(t.seen), leases)
	p.say("left in the queue: %d", len(p.stored("mail", 0)))
	given := p.stored("mail-dead", 0)
	sort.Slice(given, func(i, j int) bool { return string(given[i].Payload) < string(given[j].Payload) })
	p.say("in the dead queue: %s", payloads(given))
}

// spread: many producers, then many consumers, over four partitions.
func spread(p *program) {
	info := queue("spread")
	info.RequestedPartitions = 4
	p.create(info)
	together(8, func(i int) {
		for j := range 5 {
			if err := p.produce("spread", items(fmt.Sprintf("%d-%d-%%d", i, j), 10)...); err != nil {
				p.tell("produce", err)
			}
		}
	})
	for partition := range 4 {
		p.say("partition %d holds %d", partition, len(p.stored("spread", partition)))
	}
	var lock sync.Mutex
	seen := map[string]int{}
	together(8, func(i int) {
		c := connect(p.endpoint, "")
		for {
			var got pb.QueueLeaseResponse
			err := c.QueueLease(p.ctx, &pb.QueueLeaseRequest{QueueName: "spread", BatchSize: 7, RequestTimeout: "500ms",
				ClientId: fmt.Sprintf("worker-%d", i)}, &got)
			if err != nil {
				if code(err) != duh.CodeRetryRequest {
					p.tell("lease", err)
				}
				return
			}
			lock.Lock()
			for _, item := range got.Items {
				seen[string(item.Bytes)]++
			}
			lock.Unlock()
			if err = p.complete("spread", got.Partition, querator.CollectIDs(got.Items)...); err != nil {
				p.tell("complete", err)
			}
		}
	})
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	p.say("seen %d items, %d twice", len(seen), twice)
}

// example: the distribution of ADR 19, by its own figures.
func example(p *program) {
	info := queue("example")
	info.RequestedPartitions = 4
	p.create(info)
	for _, n := range []int{50, 30, 100, 20, 100, 100, 1} {
		if err := p.produce("example", items("%d", n)...); err != nil {
			p.tell("produce", err)
		}
		var held []string
		for partition := range 4 {
			held = append(held, fmt.Sprint(len(p.stored("example", partition))))
		}
		p.say("after %d: %s", n, strings.Join(held, " "))
	}
	var got pb.QueueStatsResponse
	err := p.c.QueueStats(p.ctx, &pb.QueueStatsRequest{QueueName: "example"}, &got)
	if err != nil {
		p.tell("stats", err)
		return
	}
	for _, logical := range got.LogicalQueues {
		p.say("waiting %d %d %d, in flight %d", logical.ProduceWaiting, logical.LeaseWaiting, logical.CompleteWaiting,
			logical.InFlight)
		for i, part := range logical.Partitions {
			age, err := time.ParseDuration(part.AverageAge)
			p.say("stats %d: %d items, %d leased, %d scheduled, %d failures, an age: %v", i, part.Total, part.TotalLeased,
				part.Scheduled, part.Failures, err == nil && age > 0)
			p.say("stats %d are of partition %d", i, part.Partition)
		}
	}
}

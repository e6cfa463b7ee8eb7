package main

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/kapetan-io/querator/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What Querator's documents promise and a program may build on, section by section.

// update: what is not named stays, and holds at once.
func update(p *program) {
	p.create(queue("u"))
	p.tell("update", p.c.QueuesUpdate(p.ctx, &pb.QueueInfo{QueueName: "u", MaxAttempts: 7, Reference: "second"}))
	var info pb.QueueInfo
	err := p.c.QueuesInfo(p.ctx, &pb.QueuesInfoRequest{QueueName: "u"}, &info)
	p.show("info", &info, err)
	var list pb.QueuesListResponse
	err = p.c.QueuesList(p.ctx, &list, nil)
	for _, listed := range list.Items {
		if listed.QueueName == "u" {
			p.show("listed", listed, err)
		}
	}
	p.put("u", "a")
	got, err := p.lease("u", 1, "1s")
	if err != nil {
		p.tell("lease", err)
		return
	}
	left := time.Until(got.Items[0].LeaseDeadline.AsTime())
	p.say("leased for a minute: %v", left > 50*time.Second && left < 70*time.Second)
}

// again: a queue that is made again after its end is empty.
func again(p *program) {
	p.create(queue("phoenix"))
	p.put("phoenix", "old")
	p.tell("delete", p.c.QueuesDelete(p.ctx, &pb.QueuesDeleteRequest{QueueName: "phoenix"}))
	p.create(queue("phoenix"))
	p.say("stored: %s", payloads(p.stored("phoenix", 0)))
}

// dead: an item that is given up stands in the dead queue.
func dead(p *program) {
	p.create(queue("d-dead"))
	info := queue("d")
	info.DeadQueue = "d-dead"
	p.create(info)
	p.put("d", "hopeless")
	got, err := p.lease("d", 1, "1s")
	if err != nil {
		p.tell("lease", err)
		return
	}
	p.tell("retry as dead", p.retry("d", 0, &pb.QueueRetryItem{Id: got.Items[0].Id, Dead: true}))
	p.say("left: %s", payloads(p.stored("d", 0)))
	p.say("in the dead queue: %s", payloads(p.stored("d-dead", 0)))
}

// attempts: no item is leased more often than its queue allows.
func attempts(p *program) {
	info := queue("once")
	info.MaxAttempts = 1
	p.create(info)
	p.put("once", "a")
	for range 3 {
		got, err := p.lease("once", 1, "300ms")
		p.say("leased: %s %s", words(got.Items), outcome(err))
		if err != nil {
			return
		}
		p.tell("retry", p.retry("once", 0, &pb.QueueRetryItem{Id: got.Items[0].Id}))
	}
}

// late: items for two instants come at both.
func late(p *program) {
	p.create(queue("two"))
	for i, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		item := &pb.QueueProduceItem{Utf8: fmt.Sprint(i), EnqueueAt: timestamppb.New(time.Now().Add(after))}
		p.tell("produce", p.produce("two", item))
	}
	for range 2 {
		got, err := p.leaseWithin("two", 1, 4*time.Second)
		p.say("leased: %s %s", words(got.Items), outcome(err))
	}
}

// poll: a lease that waits gets what comes while it waits, wherever it comes from.
func poll(p *program) {
	wait := func(what, name string) {
		got, err := p.lease(name, 1, "3s")
		p.say("%s: %s %s", what, words(got.Items), outcome(err))
	}
	p.create(queue("poll"))
	time.AfterFunc(500*time.Millisecond, func() { p.put("poll", "a") })
	wait("a produce", "poll")
	item := &pb.QueueProduceItem{Utf8: "b", EnqueueAt: timestamppb.New(time.Now().Add(time.Second))}
	p.tell("produce", p.produce("poll", item))
	wait("what is due", "poll")
	time.AfterFunc(500*time.Millisecond, func() {
		var got pb.StorageItemsImportResponse
		if err := p.c.StorageItemsImport(p.ctx, &pb.StorageItemsImportRequest{QueueName: "poll",
			Items: []*pb.StorageItem{{Payload: []byte("c")}}}, &got); err != nil {
			p.tell("import", err)
		}
	})
	wait("an import", "poll")

	p.create(queue("poll-dead"))
	info := queue("poll-short")
	info.LeaseTimeout, info.MaxAttempts, info.DeadQueue = "1s", 2, "poll-dead"
	p.create(info)
	p.put("poll-short", "d")
	wait("at once", "poll-short")
	wait("a lease that ended", "poll-short")
	wait("one that died", "poll-dead")
}

// refused: a request that is refused changes nothing.
func refused(p *program) {
	p.create(queue("r"))
	p.put("r", "a", "b", "c")
	got, err := p.lease("r", 2, "1s")
	all := p.stored("r", 0)
	if err != nil || len(all) != 3 {
		p.say("%d items, lease: %s", len(all), outcome(err))
		return
	}
	mixed := []string{got.Items[0].Id, all[2].Id, got.Items[1].Id}
	p.tell("complete leased and not leased", p.complete("r", 0, mixed...))
	p.say("left: %s", payloads(p.stored("r", 0)))
	p.tell("complete the leased ones", p.complete("r", 0, got.Items[0].Id, got.Items[1].Id))
	p.say("left: %s", payloads(p.stored("r", 0)))
}

// swept: a lease holds until its deadline, whatever else the queue has to clean up.
func swept(p *program) {
	info := queue("live")
	info.MaxAttempts, info.LeaseTimeout = 1, "1s"
	p.create(info)
	p.put("live", "short")
	if _, err := p.lease("live", 1, "1s"); err != nil {
		p.tell("lease", err)
	}
	long := queue("live")
	long.MaxAttempts, long.LeaseTimeout = 1, "20s"
	p.tell("update", p.c.QueuesUpdate(p.ctx, long))
	p.put("live", "long")
	got, err := p.lease("live", 1, "1s")
	if err != nil {
		p.tell("lease", err)
		return
	}
	end := time.Now().Add(10 * time.Second) // until the short one was swept
	for strings.Contains(payloads(p.stored("live", 0)), "short") && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
	}
	p.say("left: %s", payloads(p.stored("live", 0)))
	p.tell("complete within the lease", p.complete("live", 0, got.Items[0].Id))
}

// found: what was given back is found in whichever partition it is.
func found(p *program) {
	info := queue("f")
	info.RequestedPartitions = 2
	p.create(info)
	p.put("f", "a")
	p.put("f", "b")
	for range 2 {
		got, err := p.lease("f", 1, "1s")
		if err != nil {
			p.tell("lease", err)
			return
		}
		p.tell("retry", p.retry("f", got.Partition, &pb.QueueRetryItem{Id: got.Items[0].Id}))
	}
	count := 0
	for range 4 {
		if got, err := p.lease("f", 1, "300ms"); err == nil {
			count += len(got.Items)
		}
	}
	p.say("found %d of 2", count)
}

// names: a name of any length that is allowed works everywhere, whatever is in it.
func names(p *program) {
	for _, name := range []string{strings.Repeat("n", 500), "../up", "straße/ß"} {
		short := name[:min(len(name), 12)]
		p.create(queue(name))
		p.tell("produce to "+short, p.produce(name, items("%d", 1)...))
		got, err := p.lease(name, 1, "1s")
		p.say("leased from %s: %s %s", short, words(got.Items), outcome(err))
		var stats pb.QueueStatsResponse
		p.tell("stats of "+short, p.c.QueueStats(p.ctx, &pb.QueueStatsRequest{QueueName: name}, &stats))
		p.tell("delete "+short, p.c.QueuesDelete(p.ctx, &pb.QueuesDeleteRequest{QueueName: name}))
	}
}

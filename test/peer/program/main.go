// Command program is somebody's program on Querator's client: it makes queues, feeds them, works them off with a pool,
// retries, schedules, pages through what lies there, gives keys to a team, and prints what it saw, a line each, so that
// program.py can compare what it sees of two servers. It uses the client's public packages and nothing else.
//
// Usage: program ENDPOINT
//
// What differs from run to run by chance (which worker got what) is summed up before it is printed; ids, times and keys
// are for program.py to hide. Before its last section it prints "please end the server" and waits for that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/duh-rpc/duh-go"
	"github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const wholeTimeout = 3 * time.Minute

type program struct {
	ctx      context.Context
	endpoint string
	c        *querator.Client
	section  string
}

func connect(endpoint, key string) *querator.Client {
	c, err := querator.NewClient(querator.ClientConfig{Endpoint: endpoint, APIKey: key})
	if err != nil {
		panic(err)
	}
	return c
}

func (p *program) say(format string, args ...any) {
	fmt.Printf("%s: %s\n", p.section, fmt.Sprintf(format, args...))
}

// outcome is what a program can tell of a call: fine, or the code and the message.
func outcome(err error) string {
	var e duh.Error
	switch {
	case err == nil:
		return "fine"
	case errors.As(err, &e):
		return fmt.Sprintf("%d %s", e.Code(), e.Message())
	}
	return err.Error()
}

func code(err error) int {
	var e duh.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func (p *program) tell(what string, err error) {
	p.say("%s: %s", what, outcome(err))
}

// show prints a whole message, so that a member too many or too few is seen.
func (p *program) show(what string, m proto.Message, err error) {
	if err != nil {
		p.tell(what, err)
		return
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: false}.Marshal(m)
	if err != nil {
		panic(err)
	}
	var doc any
	if err = json.Unmarshal(raw, &doc); err != nil {
		panic(err)
	}
	plain, _ := json.Marshal(doc) // members in order, no chance in blanks
	p.say("%s: %s", what, plain)
}

// ---- the calls that every section makes

func queue(name string) *pb.QueueInfo {
	return &pb.QueueInfo{QueueName: name, LeaseTimeout: "1m", ExpireTimeout: "24h", RequestedPartitions: 1}
}

func (p *program) create(info *pb.QueueInfo) {
	if err := p.c.QueuesCreate(p.ctx, info); err != nil {
		p.tell("create "+info.QueueName, err)
	}
}

func items(format string, count int) []*pb.QueueProduceItem {
	var made []*pb.QueueProduceItem
	for i := range count {
		made = append(made, &pb.QueueProduceItem{Utf8: fmt.Sprintf(format, i), Kind: "job", Encoding: "text",
			Reference: fmt.Sprintf("ref-%d", i)})
	}
	return made
}

func (p *program) produce(name string, what ...*pb.QueueProduceItem) error {
	return p.c.QueueProduce(p.ctx, &pb.QueueProduceRequest{QueueName: name, RequestTimeout: "1m", Items: what})
}

func (p *program) put(name string, words ...string) {
	var made []*pb.QueueProduceItem
	for _, word := range words {
		made = append(made, &pb.QueueProduceItem{Utf8: word})
	}
	if err := p.produce(name, made...); err != nil {
		p.tell("produce to "+name, err)
	}
}

func (p *program) lease(name string, count int, timeout string) (*pb.QueueLeaseResponse, error) {
	var got pb.QueueLeaseResponse
	err := p.c.QueueLease(p.ctx, &pb.QueueLeaseRequest{QueueName: name, BatchSize: int32(count), ClientId: "program",
		RequestTimeout: timeout}, &got)
	return &got, err
}

// leaseWithin asks again while there is nothing, as a program does that knows that something is to come.
func (p *program) leaseWithin(name string, count int, limit time.Duration) (*pb.QueueLeaseResponse, error) {
	end := time.Now().Add(limit)
	for {
		got, err := p.lease(name, count, "200ms")
		if code(err) != duh.CodeRetryRequest || time.Now().After(end) {
			return got, err
		}
	}
}

func (p *program) complete(name string, partition int32, ids ...string) error {
	return p.c.QueueComplete(p.ctx, &pb.QueueCompleteRequest{QueueName: name, Partition: partition, RequestTimeout: "1m",
		Ids: ids})
}

func (p *program) retry(name string, partition int32, what ...*pb.QueueRetryItem) error {
	return p.c.QueueRetry(p.ctx, &pb.QueueRetryRequest{QueueName: name, Partition: partition, Items: what})
}

// stored gives what a partition shows, oldest first.
func (p *program) stored(name string, partition int) []*pb.StorageItem {
	var got pb.StorageItemsListResponse
	if err := p.c.StorageItemsList(p.ctx, name, partition, &got, nil); err != nil {
		p.tell("list "+name, err)
	}
	return got.Items
}

func payloads(listed []*pb.StorageItem) string {
	var all []string
	for _, item := range listed {
		all = append(all, string(item.Payload))
	}
	return "[" + strings.Join(all, " ") + "]"
}

func words(leased []*pb.QueueLeaseItem) string {
	var all []string
	for _, item := range leased {
		all = append(all, fmt.Sprintf("%s:%d", item.Bytes, item.Attempts))
	}
	return "[" + strings.Join(all, " ") + "]"
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: program ENDPOINT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wholeTimeout)
	defer cancel()
	p := &program{ctx: ctx, endpoint: os.Args[1], c: connect(os.Args[1], "")}
	for _, part := range []struct {
		name string
		run  func(*program)
	}{
		{"queues", queues}, {"mistakes", mistakes}, {"pool", pool}, {"spread", spread}, {"example", example},
		{"expiry", expiry}, {"schedule", schedule}, {"paging", paging}, {"import", imports}, {"clear", clearing},
		{"update", update}, {"again", again}, {"dead", dead}, {"attempts", attempts}, {"late", late}, {"poll", poll},
		{"refused", refused}, {"swept", swept}, {"found", found}, {"names", names}, {"team", team}, {"end", end},
	} {
		p.section = part.name
		part.run(p)
	}
}

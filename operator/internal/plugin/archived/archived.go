// SPDX-License-Identifier: Apache-2.0

// Package archived answers: which run of an archive does a command line mean?
package archived

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/runs/samples"
)

// Source says where a run of a command line is archived.
type Source struct {
	// flag is the name of the flag that says it.
	flag, from string
	*server
}

// server is that of the buckets of a command line.
type server struct {
	endpoint  string
	pathStyle bool
	// places are what the flags name that may name a bucket.
	places []*string
}

// Add adds the flags to a command: --from with its usage, --endpoint and --force-path-style.
func (s *Source) Add(c *cobra.Command, usage string) {
	s.server = &server{}
	s.addPlace(c, "from", usage)
	c.Flags().StringVar(&s.endpoint, "endpoint", "",
		"URL of the server of a bucket that --from names, such as https://s3.example.com:9000; AWS_ENDPOINT_URL when absent, or AWS")
	c.Flags().BoolVar(&s.pathStyle, "force-path-style", true,
		"have the bucket in the path of that URL, https://HOST/BUCKET/KEY; false: in its host name, https://BUCKET.HOST/KEY, as always with AWS")
}

// AddOther adds a flag for another run of the command line, whose bucket may be on the same server.
func (s *Source) AddOther(c *cobra.Command, flag, usage string) *Source {
	other := &Source{server: s.server}
	other.addPlace(c, flag, usage)
	return other
}

func (s *Source) addPlace(c *cobra.Command, flag, usage string) {
	s.flag = flag
	c.Flags().StringVar(&s.from, flag, "", usage)
	s.places = append(s.places, &s.from)
}

// IsSet reports whether a run is read from an archive, or flags ask for that in vain, which is an error of Read.
func (s *Source) IsSet() bool { return s.from != "" || s.unused() != nil }

// unused says which flag of the server has no effect; nil if none.
func (s *server) unused() error {
	isBucket := func(place *string) bool { return strings.HasPrefix(*place, archive.Scheme) }
	switch {
	case slices.ContainsFunc(s.places, isBucket):
		return nil
	case s.endpoint != "":
		return errors.New("--endpoint has no effect: it is for a bucket, --from s3://BUCKET/PREFIX")
	case !s.pathStyle:
		return errors.New("--force-path-style has no effect: it is for a bucket, --from s3://BUCKET/PREFIX")
	}
	return nil
}

// Read returns the run that the arguments name, with its samples, if it has any: of an archive, or of the folder of one run.
func (s *Source) Read(ctx context.Context, flags *cluster.Flags, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	run, series, err := read(ctx, store, flags, args)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s %s: %w", s.flag, s.from, err)
	}
	return run, series, nil
}

func (s *Source) open(ctx context.Context) (archive.Store, error) {
	if strings.HasPrefix(s.from, archive.Scheme) {
		bucket, err := archive.NewBucket(ctx, archive.BucketConfig{Location: s.from, Endpoint: s.endpoint, VirtualHost: !s.pathStyle})
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", s.flag, s.from, err)
		}
		return bucket, nil
	}
	if err := s.unused(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.from); err != nil {
		return nil, fmt.Errorf("--%s: %w", s.flag, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("--%s %s: must be the folder of an archive, or of a run in one", s.flag, s.from)
	}
	return archive.Directory(s.from), nil
}

func read(ctx context.Context, store archive.Store, flags *cluster.Flags, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	run, series, err := archive.Load(ctx, store, "") // the folder of one run
	if errors.Is(err, fs.ErrNotExist) {
		run, series, err = named(ctx, store, flags, args)
	}
	if err == nil && len(args) > 0 && run.Name != args[0] {
		err = fmt.Errorf("it is the folder of run %s", run.Name)
	}
	return run, series, err
}

func named(ctx context.Context, store archive.Store, flags *cluster.Flags, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	if len(args) == 0 {
		return nil, nil, errors.New("it is not the folder of one run: name a RUN")
	}
	namespace, err := flags.Namespace()
	if err != nil {
		return nil, nil, err
	}
	folder, err := archive.Find(ctx, store, namespace, args[0])
	if err != nil {
		return nil, nil, err
	}
	return archive.Load(ctx, store, folder)
}

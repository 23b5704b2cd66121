// SPDX-License-Identifier: Apache-2.0

// Package archived answers: which run of an archive does a command line mean?
package archived

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/runs/samples"
)

// Source says where the runs of a command line are archived.
type Source struct {
	from, endpoint string
	pathStyle      bool
}

// Add adds the flags to a command: --from with its usage, --endpoint and --force-path-style.
func (s *Source) Add(c *cobra.Command, usage string) {
	c.Flags().StringVar(&s.from, "from", "", usage)
	c.Flags().StringVar(&s.endpoint, "endpoint", "",
		"URL of the server of a bucket that --from names, such as https://s3.example.com:9000; AWS_ENDPOINT_URL when absent, or AWS")
	c.Flags().BoolVar(&s.pathStyle, "force-path-style", true,
		"have the bucket in the path of that URL, https://HOST/BUCKET/KEY; false: in its host name, https://BUCKET.HOST/KEY, as always with AWS")
}

// IsSet reports whether a run is read from an archive.
func (s *Source) IsSet() bool { return s.from != "" || s.endpoint != "" || !s.pathStyle }

// Read returns the run that the arguments name, with its samples, if it has any: of an archive, or of the folder of one run.
func (s *Source) Read(ctx context.Context, flags *cluster.Flags, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	run, series, err := read(ctx, store, flags, args)
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", s.from, err)
	}
	return run, series, nil
}

func (s *Source) open(ctx context.Context) (archive.Store, error) {
	if strings.HasPrefix(s.from, archive.Scheme) {
		bucket, err := archive.NewBucket(ctx, archive.BucketConfig{Location: s.from, Endpoint: s.endpoint, VirtualHost: !s.pathStyle})
		if err != nil {
			return nil, fmt.Errorf("--from %s: %w", s.from, err)
		}
		return bucket, nil
	}
	if s.endpoint != "" {
		return nil, errors.New("--endpoint has no effect: it is for a bucket, --from s3://BUCKET/PREFIX")
	}
	if !s.pathStyle {
		return nil, errors.New("--force-path-style has no effect: it is for a bucket, --from s3://BUCKET/PREFIX")
	}
	if info, err := os.Stat(s.from); err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("--from %s: must be the folder of an archive, or of a run in one", s.from)
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

// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: how is an S3-compatible bucket a place for archived files?

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Scheme begins the location of a bucket.
const Scheme = "s3://"

const (
	// headerLimit bounds the time until the answer to a request for credentials begins. One to the bucket is given up before, with more of a reason.
	headerLimit = idleLimit + 5*time.Second
	// longestBackoff is the longest pause between the SDK's three attempts. The operator makes further ones after longer pauses.
	longestBackoff = 200 * time.Millisecond
	// regionOfEndpoint is what most servers other than AWS take requests for.
	regionOfEndpoint = "us-east-1"
)

// BucketConfig says which bucket it is, and how it is reached. Credentials are those that the AWS SDK finds: of the environment, a web identity, a profile, or
// the machine.
type BucketConfig struct {
	// Location is s3://BUCKET or s3://BUCKET/PREFIX.
	Location string
	// Endpoint is the URL of a server; empty: that of AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS.
	Endpoint string
	// VirtualHost has the bucket in the endpoint's host name (BUCKET.HOST), as AWS has it, instead of in the path.
	VirtualHost bool
	// Region is that of the bucket; empty: that of AWS_REGION or the profile.
	Region string
	// CAFile is a PEM file of the authorities that sign the server's certificate; empty: that of AWS_CA_BUNDLE, or the system's.
	CAFile string
}

// Bucket is a bucket, or what is below a prefix in one.
type Bucket struct {
	client *s3.Client
	name   string
	prefix string // empty, or ends in /
	page   *int32 // maximum number of files in an answer; the server's, usually 1,000, if nil
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// split returns bucket and prefix of a location.
func split(location string) (name, prefix string, err error) {
	rest, found := strings.CutPrefix(location, Scheme)
	name, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	if !found || !bucketName.MatchString(name) || prefix != "" && !fs.ValidPath(prefix) {
		return "", "", fmt.Errorf("%q is no location in a bucket: must be s3://BUCKET or s3://BUCKET/PREFIX", location)
	}
	if prefix != "" {
		prefix += "/"
	}
	return name, prefix, nil
}

// Validate checks what can be checked without a server.
func (c *BucketConfig) Validate() error {
	name, _, err := split(c.Location)
	if err != nil || c.Endpoint == "" {
		return err
	}
	at, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return errors.New("the endpoint must be a URL such as https://s3.example.com:9000")
	case at.User != nil:
		return errors.New("the endpoint must have no credentials: they are taken of the environment")
	case c.VirtualHost && net.ParseIP(at.Hostname()) != nil:
		return errors.New("without path style the endpoint must have a host name, before which the bucket can be (BUCKET.HOST), not an address")
	case c.VirtualHost && strings.Contains(name, "."):
		return fmt.Errorf("the name of bucket %s has a dot: it needs path style, as a certificate of *.HOST is not for it", name)
	}
	return nil
}

// NewBucket returns a bucket. It sends no request: what is wrong with server, bucket and credentials is reported by the first use.
func NewBucket(ctx context.Context, c BucketConfig) (*Bucket, error) {
	return newBucket(ctx, c, idleLimit)
}

// newBucket is NewBucket with a limit of the time in which no byte is moved.
func newBucket(ctx context.Context, c BucketConfig, idle time.Duration) (*Bucket, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name, prefix, err := split(c.Location)
	if err != nil {
		return nil, err
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = headerLimit })),
		config.WithRegion(c.Region),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = longestBackoff })
		}),
	}
	if c.CAFile != "" {
		authorities, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		options = append(options, config.WithCustomCABundle(bytes.NewReader(authorities)))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	loaded.Credentials = credentials{loaded.Credentials}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.HTTPClient = &patientClient{o.HTTPClient, idle}
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint
		}
		o.UsePathStyle = o.BaseEndpoint != nil && !c.VirtualHost
		if o.Region == "" && o.BaseEndpoint != nil {
			o.Region = regionOfEndpoint
		}
		// Many servers do not know the SDK's own checksums. The signature covers the content.
		o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
	})
	if at := client.Options().BaseEndpoint; at != nil {
		c.Endpoint = *at // may be that of the environment
		if err := c.Validate(); err != nil {
			return nil, err
		}
	}
	if client.Options().Region == "" {
		return nil, fmt.Errorf("the region of bucket %s is not known: set it (AWS_REGION), or the endpoint if the server is not that of AWS", name)
	}
	return &Bucket{client: client, name: name, prefix: prefix}, nil
}

// key returns that of a file.
func (b *Bucket) key(name string) (*string, error) {
	if name == "." || !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q is no name of a file in the archive", name)
	}
	return aws.String(b.prefix + name), nil
}

// Put implements Store.
func (b *Bucket) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	key, err := b.key(name)
	if err != nil {
		return err
	}
	u := &upload{ctx: ctx, bucket: b, key: key}
	err = write(u)
	if u.err != nil {
		err = u.err // writers on top may repeat it
	} else if err == nil {
		err = u.close()
	}
	if err != nil {
		u.abort()
	}
	return err
}

// Open implements Store.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	key, err := b.key(name)
	if err != nil {
		return nil, err
	}
	object, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: key})
	if err != nil {
		return nil, b.failed(reads, *key, err)
	}
	return &objectBody{object.Body, b, *key}, nil
}

// objectBody is the content of an object.
type objectBody struct {
	io.ReadCloser
	bucket *Bucket
	key    string
}

func (o *objectBody) Read(into []byte) (int, error) {
	n, err := o.ReadCloser.Read(into)
	if !errors.Is(err, io.EOF) {
		err = o.bucket.failed(reads, o.key, err)
	}
	return n, err
}

// List implements Store.
func (b *Bucket) List(ctx context.Context, folder string) (all []File, err error) {
	below := &b.prefix
	if folder != "" {
		if below, err = b.key(folder); err != nil {
			return nil, err
		}
		*below += "/"
	}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: below, MaxKeys: b.page})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.failed(lists, *below, err)
		}
		for _, object := range page.Contents {
			if name := strings.TrimPrefix(aws.ToString(object.Key), b.prefix); !strings.HasSuffix(name, "/") { // as consoles mark folders
				all = append(all, File{name, aws.ToTime(object.LastModified)})
			}
		}
	}
	return all, nil
}

// Delete implements Store.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	key, err := b.key(name)
	if err != nil {
		return err
	}
	_, err = b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: key})
	return b.failed(deletes, *key, err)
}

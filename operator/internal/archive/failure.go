// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: why did a request to a bucket fail, in plain words, which are the same each time?

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
)

// What a request does.
const (
	writes  = "write"
	reads   = "read"
	lists   = "list"
	deletes = "delete"
)

// credentials are those of the SDK. Its errors have no type of their own.
type credentials struct{ aws.CredentialsProvider }

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }

func (e *credentialsError) Unwrap() error { return e.err }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &credentialsError{err}
	}
	return found, err
}

// BucketError is why a request to a bucket failed. Its text has no identifiers of requests, with which a condition would change at each attempt.
type BucketError struct {
	at, reason string
	err        error
}

func (e *BucketError) Error() string { return e.at + ": " + e.reason }

func (e *BucketError) Unwrap() error { return e.err }

// failed returns the error of a request that does something with a key, or with all below one; nil if it has none.
func (b *Bucket) failed(does, key string, err error) error {
	if err == nil {
		return nil
	}
	options := b.client.Options()
	at := "bucket " + b.name
	if options.BaseEndpoint != nil {
		at += " at " + *options.BaseEndpoint
	}
	failure := &BucketError{at: at, err: err}
	var none *credentialsError
	var answer smithy.APIError
	var stalled *stalledError
	var certificate *tls.CertificateVerificationError
	var operation *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &none) && errors.As(none.err, &answer):
		failure.reason = noCredentials + answer.ErrorCode() + ": " + answer.ErrorMessage()
	case errors.As(err, &none):
		failure.reason = noCredentials + none.Error()
	case errors.As(err, &answer):
		failure.reason = refusal(does, options.Region, answer)
		if answer.ErrorCode() == "NoSuchKey" {
			failure.err = fs.ErrNotExist
		}
	case errors.As(err, &stalled):
		failure.reason = fmt.Sprintf("the server stalled when asked to %s %q: %s: see whether it, or a proxy before it, hangs, and try again", does, key, stalled)
	case errors.Is(err, context.DeadlineExceeded):
		failure.reason = "the server did not answer in time"
	case errors.Is(err, context.Canceled):
		failure.reason = "canceled"
	case errors.As(err, &certificate):
		failure.reason = "the server's certificate is not trusted: " + certificate.Err.Error()
	case errors.As(err, &operation):
		failure.reason = "the server cannot be reached: " + operation.Err.Error()
	case errors.As(err, &request):
		failure.reason = "the server cannot be reached: " + request.Err.Error()
	default:
		failure.reason = root(err).Error()
	}
	return failure
}

// noCredentials begins that reason.
const noCredentials = "there are no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, a web identity, or the machine's): "

// refusal says what an answer of the server means.
func refusal(does, region string, answer smithy.APIError) string {
	switch code := answer.ErrorCode(); code {
	case "NoSuchBucket":
		return "there is no such bucket"
	case "NoSuchKey":
		return "there is no such file"
	case "AccessDenied":
		return "access denied: the credentials do not allow to " + does + " files there"
	case "InvalidAccessKeyId":
		return "access denied: the server does not know the access key"
	case "SignatureDoesNotMatch":
		return "access denied: the secret key is not that of the access key"
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return "access denied: the credentials have expired or are not valid"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return fmt.Sprintf("the bucket is in another region than %s", region)
	case "RequestTimeTooSkewed":
		return "the clocks of the server and of this machine differ by too much"
	default:
		if text := answer.ErrorMessage(); text != "" {
			return fmt.Sprintf("the server does not %s files: %s: %s", does, code, text)
		}
		return fmt.Sprintf("the server does not %s files: %s", does, code)
	}
}

// root returns the innermost error.
func root(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

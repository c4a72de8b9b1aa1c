package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
)

func init() {
	// As installers of clusters set it up; the server's own default is false.
	capabilities.Setup(true, 0)
	register("create", createManifests)
}

// strictCodecs decode as the API server does for fieldValidation=Strict.
var strictCodecs = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)

type creation struct {
	strategy rest.RESTCreateStrategy
	group    string
	version  string
	resource string
}

var creations = map[string]creation{
	"Pod":                   {pod.Strategy, "", "v1", "pods"},
	"PodTemplate":           {podtemplate.Strategy, "", "v1", "podtemplates"},
	"ReplicationController": {replicationcontroller.Strategy, "", "v1", "replicationcontrollers"},
	"Deployment":            {deployment.Strategy, "apps", "v1", "deployments"},
	"ReplicaSet":            {replicaset.Strategy, "apps", "v1", "replicasets"},
	"StatefulSet":           {statefulset.Strategy, "apps", "v1", "statefulsets"},
	"DaemonSet":             {daemonset.Strategy, "apps", "v1", "daemonsets"},
	"Job":                   {job.Strategy, "batch", "v1", "jobs"},
	"CronJob":               {cronjob.Strategy, "batch", "v1", "cronjobs"},
}

type createView struct {
	// Decoding is the message of the decoder's error.
	Decoding string `json:"decoding"`
	// Strict are the parts of a strict decoding error.
	Strict []string `json:"strict"`
	// Errors are the causes of a refusal by validation, or the message of any other refusal.
	Errors []string `json:"errors"`
	Panic  string   `json:"panic,omitempty"`
}

// createManifests answers as the API server does for a strict create of each object, short of
// admission plugins.
func createManifests(args json.RawMessage) (any, error) {
	var in struct {
		Objects []json.RawMessage `json:"objects"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	out := make([]createView, 0, len(in.Objects))
	for _, raw := range in.Objects {
		var typed metav1.TypeMeta
		if err := json.Unmarshal(raw, &typed); err != nil {
			return nil, err
		}
		known, ok := creations[typed.Kind]
		if !ok {
			return nil, fmt.Errorf("kind %q cannot be created here", typed.Kind)
		}
		out = append(out, created(known, typed.Kind, raw))
	}
	return out, nil
}

func created(known creation, kind string, raw []byte) (view createView) {
	view = createView{Strict: []string{}, Errors: []string{}}
	defer func() {
		if p := recover(); p != nil {
			view.Panic = fmt.Sprint(p)
		}
	}()
	gvk := schema.GroupVersionKind{Group: known.group, Version: known.version, Kind: kind}
	hub := schema.GroupVersion{Group: known.group, Version: runtime.APIVersionInternal}
	info, _ := runtime.SerializerInfoForMediaType(strictCodecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	decoder := strictCodecs.DecoderToVersion(info.StrictSerializer, hub)
	obj, _, err := decoder.Decode(raw, &gvk, nil)
	if err != nil {
		view.Decoding = err.Error()
		if strict, ok := runtime.AsStrictDecodingError(err); ok {
			for _, each := range strict.Errors() {
				view.Strict = append(view.Strict, each.Error())
			}
		}
		return view
	}
	ctx := genericapirequest.WithNamespace(context.Background(), metav1.NamespaceDefault)
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: known.group, APIVersion: known.version,
		Resource: known.resource, Namespace: metav1.NamespaceDefault,
	})
	if err := beforeCreate(ctx, known.strategy, obj); err != nil {
		view.Errors = causes(err)
	}
	return view
}

// beforeCreate does what the handler of the request and the store do ahead of storing.
func beforeCreate(ctx context.Context, strategy rest.RESTCreateStrategy, obj runtime.Object) error {
	objectMeta, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	rest.WipeObjectMetaSystemFields(objectMeta)
	expected := rest.ExpectedNamespaceForScope(metav1.NamespaceDefault, strategy.NamespaceScoped())
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(expected, objectMeta); err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(objectMeta)
	if len(objectMeta.GetGenerateName()) > 0 && len(objectMeta.GetName()) == 0 {
		objectMeta.SetName(strategy.GenerateName(objectMeta.GetGenerateName()))
	}
	return rest.BeforeCreate(strategy, ctx, obj)
}

func causes(err error) []string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return []string{err.Error()}
	}
	texts := []string{}
	for _, cause := range status.ErrStatus.Details.Causes {
		texts = append(texts, cause.Field+": "+cause.Message)
	}
	return texts
}

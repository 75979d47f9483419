// Package dynamic reads objects of one kind from a list in place of a cluster, for `lookup` in a template.
package dynamic

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

type ResourceInterface interface {
	Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error)
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

type Interface interface {
	Resource(schema.GroupVersionResource) NamespaceableResourceInterface
}

func NewForConfig(*rest.Config) (Interface, error) { return nil, errors.New("there is no cluster") }

// Objects are those of one kind.
type Objects []map[string]any

func (all Objects) Namespace(namespace string) ResourceInterface {
	found := Objects{}
	for _, object := range all {
		if (&unstructured.Unstructured{Object: object}).GetNamespace() == namespace {
			found = append(found, object)
		}
	}
	return found
}

func (all Objects) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	for _, object := range all {
		if one := (&unstructured.Unstructured{Object: object}); one.GetName() == name {
			return one, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (all Objects) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, object := range all {
		list.Items = append(list.Items, unstructured.Unstructured{Object: object})
	}
	return list, nil
}

#pragma once
// libcurl, and the few of its calls that Swift cannot make.

#include <curl/curl.h>
#include <stdbool.h>
#include <string.h>

typedef size_t (*reel_data_callback)(char *bytes, size_t size, size_t count, void *context);
typedef int (*reel_request_callback)(void *context, char *address, char *local, int port, int local_port);
typedef curl_socket_t (*reel_socket_callback)(void *context, curlsocktype purpose, struct curl_sockaddr *address);

// Values of options: releases of libcurl declare them as enumerations or as macros of type long.
static const long reel_require_tls = CURLUSESSL_ALL;
static const long reel_http_1_1 = CURL_HTTP_VERSION_1_1;
static const long reel_ftp_single_cwd = CURLFTPMETHOD_SINGLECWD;
static const long reel_ftp_no_cwd = CURLFTPMETHOD_NOCWD;
// CURLE_TOO_LARGE, known from 8.6.0 on.
static const CURLcode reel_too_large = (CURLcode)100;

// curl_easy_setopt(3), curl_multi_setopt(3) and curl_easy_getinfo(3) are variadic, and macros that want a constant
// option: one function for each type of argument.
static inline CURLcode reel_set_long(CURL *easy, CURLoption option, long value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_string(CURL *easy, CURLoption option, const char *value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_context(CURL *easy, CURLoption option, void *value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_data_callback(CURL *easy, CURLoption option, reel_data_callback value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_socket_callback(CURL *easy, CURLoption option, reel_socket_callback value) {
    return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode reel_set_progress_callback(CURL *easy, curl_xferinfo_callback value, void *context) {
    (curl_easy_setopt)(easy, CURLOPT_XFERINFODATA, context);
    (curl_easy_setopt)(easy, CURLOPT_NOPROGRESS, 0L);
    return (curl_easy_setopt)(easy, CURLOPT_XFERINFOFUNCTION, value);
}
static inline CURLcode reel_set_close_callback(CURL *easy, curl_closesocket_callback value) {
    return (curl_easy_setopt)(easy, CURLOPT_CLOSESOCKETFUNCTION, value);
}
static inline CURLcode reel_set_debug_callback(CURL *easy, CURLoption option, curl_debug_callback value) {
    return (curl_easy_setopt)(easy, option, value);
}
// From 7.80.0 on: told of each address that a request goes to, that of an idle connection as well.
static inline CURLcode reel_set_request_callback(CURL *easy, reel_request_callback value, void *context) {
#if LIBCURL_VERSION_NUM >= 0x075000
    (curl_easy_setopt)(easy, CURLOPT_PREREQDATA, context);
    return (curl_easy_setopt)(easy, CURLOPT_PREREQFUNCTION, value);
#else
    (void)easy, (void)value, (void)context;
    return CURLE_OK;
#endif
}
// A share takes no locks here: one thread uses it.
static inline CURLSHcode reel_share_add(CURLSH *share, curl_lock_data kind) {
    return (curl_share_setopt)(share, CURLSHOPT_SHARE, kind);
}
static inline long reel_count_cookies(CURL *easy) {
    struct curl_slist *cookies = NULL;
    long count = 0;
    (curl_easy_getinfo)(easy, CURLINFO_COOKIELIST, &cookies);
    for (struct curl_slist *cookie = cookies; cookie; cookie = cookie->next) count++;
    curl_slist_free_all(cookies);
    return count;
}
static inline CURLMcode reel_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return (curl_multi_setopt)(multi, option, value);
}
static inline long reel_get_long(CURL *easy, CURLINFO info) {
    long value = 0;
    (curl_easy_getinfo)(easy, info, &value);
    return value;
}

static inline CURLcode reel_set_key_callback(CURL *easy, curl_sshkeycallback value) {
    return (curl_easy_setopt)(easy, CURLOPT_SSH_KEYFUNCTION, value);
}
static inline curl_off_t reel_get_offset(CURL *easy, CURLINFO info) {
    curl_off_t value = -1;
    (curl_easy_getinfo)(easy, info, &value);
    return value;
}

// The result of a finished transfer lies in a union inside CURLMsg; the context is what CURLOPT_PRIVATE was given.
static inline CURLcode reel_message_result(const CURLMsg *message) { return message->data.result; }
static inline void *reel_private(CURL *easy) {
    char *value = NULL;
    (curl_easy_getinfo)(easy, CURLINFO_PRIVATE, &value);
    return value;
}

// Whether SSH is libssh's matter, and not libssh2's.
static inline bool reel_uses_libssh(void) {
    const char *version = curl_version_info(CURLVERSION_NOW)->libssh_version;
    return version != NULL && strncmp(version, "libssh/", 7) == 0;
}

// From 8.12.0 on libcurl keeps several TLS sessions of a server, and resumes the oldest (lib/vtls/vtls_scache.c).
static inline bool reel_resumes_oldest_session(void) {
    return curl_version_info(CURLVERSION_NOW)->version_num >= 0x080C00;
}

// Only http and https, or only what file servers speak: by name from 7.85.0 on, which deprecates the bits that older
// versions know.
static inline CURLcode reel_allow_http_only(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return (curl_easy_setopt)(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return (curl_easy_setopt)(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}
static inline CURLcode reel_allow_files_only(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return (curl_easy_setopt)(easy, CURLOPT_PROTOCOLS_STR, "ftp,ftps,sftp");
#else
    return (curl_easy_setopt)(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_FTP | CURLPROTO_FTPS | CURLPROTO_SFTP));
#endif
}

// From 7.87.0 on: do not wait for a resolver thread when its transfer is given up. Older versions wait.
static inline CURLcode reel_leave_resolver(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075700
    return (curl_easy_setopt)(easy, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)easy;
    return CURLE_OK;
#endif
}
